import { statfsSync } from 'node:fs';
import { constants } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import {
  errorCode,
  faultWithoutPath,
  isDiskFull,
  isGone,
  isOutOfInodes,
  lacksInodes,
} from '../../src/files/errors.js';
import { plant, temporary } from '../support/temporary.js';

/** An error as Node makes it for a call of the system. */
const systemError = (name: keyof typeof constants.errno, code: string = name) =>
  Object.assign(new Error(`${code}, open '/secret'`), { code, errno: -constants.errno[name] });

test("A disk is full when its bytes, its inodes or the user's quota are exhausted", () => {
  expect(isDiskFull(systemError('ENOSPC'))).toBe(true);
  // libuv does not know this one.
  const quota = systemError('EDQUOT', 'Unknown system error -122');
  expect([errorCode(quota), isDiskFull(quota), faultWithoutPath(quota)]).toEqual([
    'EDQUOT',
    true,
    'disk quota exceeded (EDQUOT)',
  ]);
  expect(isDiskFull(systemError('EACCES'))).toBe(false);
});

test.each<[unknown, string]>([
  [systemError('EACCES'), 'permission denied (EACCES)'],
  [systemError('ENOENT'), 'no such file or directory (ENOENT)'],
  // libuv has no words for this one.
  [systemError('ESTALE', 'Unknown system error -116'), 'the system refused it (ESTALE)'],
  [new Error('it is longer than 64 KiB'), 'it is longer than 64 KiB'],
  ['a text', 'a text'],
])('A fault is described without a path: %s', (cause, expected) => {
  expect(faultWithoutPath(cause)).toBe(expected);
});

test('A full disk with free inodes lacks only bytes, for any path on it', async () => {
  await using directory = await temporary();
  const below = path.join(directory.path, 'a', 'b');
  const { files, ffree } = statfsSync(directory.path);
  const lacks = files > 0 && ffree <= 10;
  expect(lacksInodes(below)).toBe(lacks);
  expect(isOutOfInodes(systemError('ENOSPC'), below)).toBe(lacks);
  expect(isOutOfInodes(systemError('ENOSPC'))).toBe(false);
  expect(faultWithoutPath(systemError('ENOSPC'), below)).toBe('no space left on device (ENOSPC)');
});

test('Only a file that certainly does not exist is reported as gone', async () => {
  await using directory = await temporary();
  await plant(directory.path, { file: '' });
  // What cannot be looked at may be there.
  const places = ['file', 'missing', 'x'.repeat(300), '.'];
  expect(places.filter((name) => isGone(path.join(directory.path, name)))).toEqual(['missing']);
});
