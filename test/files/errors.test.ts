import { constants } from 'node:os';
import { expect, test } from 'vitest';
import { faultWithoutPath, isDiskFull } from '../../src/files/errors.js';

/** An error as Node makes it for a call of the system. */
const systemError = (name: 'ENOSPC' | 'EDQUOT' | 'EACCES', code: string = name) =>
  Object.assign(new Error(`${code}, open '/secret'`), { code, errno: -constants.errno[name] });

test('a disk is full when its bytes or inodes are used up, or the quota of its user', () => {
  expect(isDiskFull(systemError('ENOSPC'))).toBe(true);
  // libuv does not know this one.
  const quota = systemError('EDQUOT', 'Unknown system error -122');
  expect([isDiskFull(quota), faultWithoutPath(quota)]).toEqual([true, 'disk quota exceeded (EDQUOT)']);
  expect(isDiskFull(systemError('EACCES'))).toBe(false);
});
