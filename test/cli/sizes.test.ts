import { Parser } from '@oclif/core';
import { expect, test } from 'vitest';
import { seconds, wholeNumber } from '../../src/cli/command/index.js';
import { parseSize } from '../../src/contract/index.js';

test.each([
  ['2G', 2 * 1024 ** 3],
  ['2g', 2 * 1024 ** 3],
  ['2GiB', 2 * 1024 ** 3],
  ['2GB', 2e9],
  ['1.5 M', 1.5 * 1024 ** 2],
  ['1T', 1024 ** 4],
  ['2.25K', 2304],
  [' 3 KB ', 3000],
  ['0.0005k', 0],
  ['7b', 7],
  ['1TB', 1e12],
  ['1TiB', 1024 ** 4],
  ['1MiB', 1024 ** 2],
  ['1KiB', 1024],
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

test('A whole number is accepted from the minimum to the maximum of its flag, and not beyond', async () => {
  const flags = { n: wholeNumber({ min: 2, max: 5 }), any: wholeNumber() };
  const read = async (word: string) => (await Parser.parse([word], { flags })).flags;
  expect([(await read('--n=2')).n, (await read('--n=5')).n, (await read('--any=-7')).any]).toEqual([
    2, 5, -7,
  ]);
  await expect(read('--n=1')).rejects.toThrow("--n must be at least 2, got '1'");
  await expect(read('--n=6')).rejects.toThrow("--n must be at most 5, got '6'");
  await expect(read('--n=2.5')).rejects.toThrow("--n takes a whole number, got '2.5'");
});

test('Seconds may be fractional, and must be above zero or at least the minimum of the flag', async () => {
  const flags = { any: seconds(), some: seconds({ min: 0.1 }) };
  const read = async (word: string) => Object.values((await Parser.parse([word], { flags })).flags)[0];
  expect([await read('--any=0.01'), await read('--any=2000000'), await read('--some=0.1')]).toEqual([
    0.01, 2_000_000, 0.1,
  ]);
  for (const wrong of ['0', '-1', '2000001', ' ', 'soon'])
    await expect(read(`--any=${wrong}`)).rejects.toThrow(
      `--any takes a number of seconds above 0 and up to 2000000, got '${wrong}'`,
    );
  await expect(read('--some=0.09')).rejects.toThrow(
    "--some takes a number of seconds of at least 0.1 and up to 2000000, got '0.09'",
  );
});
