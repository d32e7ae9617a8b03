import { expect, test } from 'vitest';
import { parseSize } from '../../src/cli/command/flags.js';

test.each([
  ['2G', 2 * 1024 ** 3],
  ['2g', 2 * 1024 ** 3],
  ['2GiB', 2 * 1024 ** 3],
  ['2GB', 2e9],
  ['1.5 M', 1.5 * 1024 ** 2],
  ['1T', 1024 ** 4],
  ['8k', 8192],
  ['500MB', 5e8],
  ['1048576', 1048576],
])('%s is %i bytes', (text, bytes) => {
  expect(parseSize(text)).toBe(bytes);
});

test.each(['', 'G', '2Q', '2GG', '-1G', '2 G B', '0x2G', '9000TiB', '9'.repeat(400)])(
  '%j is not a size',
  (text) => {
    expect(parseSize(text)).toBeUndefined();
  },
);
