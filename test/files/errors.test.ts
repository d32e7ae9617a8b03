import { rmSync, statfsSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import {
  errorCode,
  faultWithoutPath,
  isDiskFull,
  isFileTooLarge,
  isForbidden,
  isGone,
  isMissing,
  isOutOfInodes,
  isProgramAway,
  isShortage,
  isSystemError,
  lacksInodes,
} from '../../src/files/errors.js';
import { smallDisk } from '../support/small-disk.js';
import { plant, temporary } from '../support/temporary.js';

/** An error as Node makes it for a call of the system. */
const systemError = (name: keyof typeof constants.errno, code: string = name) =>
  Object.assign(new Error(`${code}, open '/secret'`), { code, errno: -constants.errno[name] });

const ownError = (code: string) => Object.assign(new Error('own'), { code });

test('a disk is full when its bytes or inodes are used up, or the quota of its user', () => {
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

test('each kind of error has its codes', () => {
  const codes = [
    ...(['ENOSPC', 'EFBIG', 'EACCES', 'EPERM', 'EROFS', 'ENOENT', 'ENOTDIR', 'EMFILE', 'ENFILE'] as const),
    ...(['EAGAIN', 'ENOMEM', 'EIO', 'EEXIST'] as const),
  ];
  const which = (is: (cause: unknown) => boolean) => codes.filter((code) => is(systemError(code)));
  expect({
    full: which(isDiskFull),
    tooLarge: which(isFileTooLarge),
    forbidden: which(isForbidden),
    missing: which(isMissing),
    shortage: which(isShortage),
    ofTheSystem: which(isSystemError).length,
  }).toEqual({
    full: ['ENOSPC'],
    tooLarge: ['EFBIG'],
    forbidden: ['EACCES', 'EPERM', 'EROFS'],
    missing: ['ENOENT', 'ENOTDIR'],
    shortage: ['EMFILE', 'ENFILE', 'EAGAIN', 'ENOMEM'],
    ofTheSystem: codes.length,
  });
  const own = ['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND', 'ERR_INVALID_URL'];
  expect(own.filter((code) => isProgramAway(ownError(code)))).toEqual(own.slice(0, 2));
  expect(isSystemError(ownError('ERR_INVALID_URL'))).toBe(false);
  expect([errorCode(ownError('ERR_INVALID_URL')), errorCode(new Error('x')), errorCode('ENOENT')]).toEqual([
    'ERR_INVALID_URL',
    '',
    '',
  ]);
});

test.each<[unknown, string]>([
  [systemError('EACCES'), 'permission denied (EACCES)'],
  [systemError('ENOENT'), 'no such file or directory (ENOENT)'],
  // libuv has no words for this one.
  [systemError('ESTALE', 'Unknown system error -116'), 'the system refused it (ESTALE)'],
  [new Error('it is longer than 64 KiB'), 'it is longer than 64 KiB'],
  ['a text', 'a text'],
])('a fault is told without a path: %s', (cause, expected) => {
  expect(faultWithoutPath(cause)).toBe(expected);
});

test('a full disk with inodes left lacks bytes alone, wherever it is asked', async () => {
  await using directory = await temporary();
  const below = path.join(directory.path, 'a', 'b');
  const { files, ffree } = statfsSync(directory.path);
  const lacks = files > 0 && ffree <= 10;
  expect(lacksInodes(below)).toBe(lacks);
  expect(isOutOfInodes(systemError('ENOSPC'), below)).toBe(lacks);
  expect(isOutOfInodes(systemError('ENOSPC'))).toBe(false);
  expect(faultWithoutPath(systemError('ENOSPC'), below)).toBe('no space left on device (ENOSPC)');
});

const disk = smallDisk(1, 40);
test.skipIf(disk === null)('a disk lacks inodes as long as it has ten at the most', () => {
  const root = disk ?? '';
  const file = (number: number) => path.join(root, String(number));
  let count = 0;
  const fill = () => {
    for (; ; count += 1) writeFileSync(file(count), '');
  };
  expect(fill).toThrow('ENOSPC');
  for (let left = 1; left <= 11; left += 1) {
    rmSync(file(count - left));
    expect([statfsSync(root).ffree, lacksInodes(root)]).toEqual([left, left <= 10]);
  }
});

test('only what is certainly not there is gone', async () => {
  await using directory = await temporary();
  await plant(directory.path, { file: '' });
  // What cannot be looked at may be there.
  const places = ['file', 'missing', 'x'.repeat(300), '.'];
  expect(places.filter((name) => isGone(path.join(directory.path, name)))).toEqual(['missing']);
});
