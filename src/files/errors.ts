import { lstatSync, type StatsFs, statfsSync } from 'node:fs';
import { constants } from 'node:os';
import path from 'node:path';
import { getSystemErrorMap } from 'node:util';

const errnoOf = (cause: unknown): number =>
  cause instanceof Error && 'errno' in cause ? Number(cause.errno) : 0;

/** Returns what a function returns, or the other value if it throws. */
export function orElse<Value, Other>(read: () => Value, other: Other): Value | Other {
  try {
    return read();
  } catch {
    return other;
  }
}

/** The message of an error, or the text of any other thrown value. */
export const messageOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));

/** libuv has no name for EDQUOT (quota exceeded): Node reports it as `Unknown system error -122`. */
const isQuota = (cause: unknown): boolean => errnoOf(cause) === -constants.errno.EDQUOT;

/** The code of a system error or of one of Node's own errors (`ENOSPC`, `ERR_INVALID_URL`); empty for anything else. */
export function errorCode(cause: unknown): string {
  if (isQuota(cause)) return 'EDQUOT';
  return cause instanceof Error && 'code' in cause ? String(cause.code) : '';
}

/** Whether an error comes from the operating system. */
export const isSystemError = (cause: unknown): boolean => cause instanceof Error && 'errno' in cause;

/** Whether a write failed because the disk is full or a quota is used up. */
export const isDiskFull = (cause: unknown): boolean => ['ENOSPC', 'EDQUOT'].includes(errorCode(cause));

/** Statistics of the file system that a path is on, or would be on; null if unknown. */
function fileSystemOf(place: string): StatsFs | null {
  try {
    return statfsSync(place);
  } catch (cause) {
    const above = path.dirname(place);
    return isMissing(cause) && above !== place ? fileSystemOf(above) : null;
  }
}

/** Up to this many free inodes count as none: programs may have freed a few since one of them ran out. */
const fewInodes = 10;

/** Whether a file system has free space but no inode for another file, or nearly none. */
export function lacksInodes(place: string): boolean {
  const system = fileSystemOf(place);
  return system !== null && system.files > 0 && system.ffree <= fewInodes && system.bavail > 0;
}

/**
 * Whether a write failed because no inodes are left although the disk has space. The error code is the same as for a full disk.
 * @param place where the write failed, if the error does not say so
 */
export function isOutOfInodes(cause: unknown, place?: string): boolean {
  if (errorCode(cause) !== 'ENOSPC') return false;
  const named = place ?? (cause as NodeJS.ErrnoException).path;
  return named !== undefined && lacksInodes(path.resolve(named));
}

/** Whether a write failed because the file would exceed the maximum size that this process, or the file system, allows. */
export const isFileTooLarge = (cause: unknown): boolean => errorCode(cause) === 'EFBIG';

/** Whether a call failed because this user lacks permission, or the file system is read-only. */
export const isForbidden = (cause: unknown): boolean =>
  ['EACCES', 'EPERM', 'EROFS'].includes(errorCode(cause));

/** Whether a call failed because its path, or a part of it, does not exist. */
export const isMissing = (cause: unknown): boolean => ['ENOENT', 'ENOTDIR'].includes(errorCode(cause));

/** Whether a call failed because of a temporary shortage of descriptors, processes or memory. */
export const isShortage = (cause: unknown): boolean =>
  ['EMFILE', 'ENFILE', 'EAGAIN', 'ENOMEM'].includes(errorCode(cause));

/** Whether a part of this program could not be loaded, because its files are missing for a moment during an upgrade. */
export const isProgramAway = (cause: unknown): boolean =>
  ['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND'].includes(errorCode(cause));

/**
 * An error message without any path of this machine, fit for a client. A system error's own message contains the path.
 * @param place where the write failed, if the error does not say so
 */
export function faultWithoutPath(cause: unknown, place?: string): string {
  if (isOutOfInodes(cause, place)) return 'no inodes (files) are left (ENOSPC)';
  if (isQuota(cause)) return 'disk quota exceeded (EDQUOT)';
  const errno = errnoOf(cause);
  const known = getSystemErrorMap().get(errno);
  if (known) return `${known[1]} (${known[0]})`;
  // libuv has no message for these.
  const [name] = Object.entries(constants.errno).find(([, value]) => value === -errno) ?? [];
  if (errno < 0 && name !== undefined) return `the system refused it (${name})`;
  return messageOf(cause);
}

/** Whether a path certainly does not exist; false if that cannot be determined. */
export const isGone = (file: string): boolean =>
  orElse(() => lstatSync(file, { throwIfNoEntry: false }) === undefined, false);
