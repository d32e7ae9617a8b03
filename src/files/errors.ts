import { lstatSync, type StatsFs, statfsSync } from 'node:fs';
import { constants } from 'node:os';
import path from 'node:path';
import { getSystemErrorMap } from 'node:util';

const errnoOf = (cause: unknown): number =>
  cause instanceof Error && 'errno' in cause ? Number(cause.errno) : 0;

/** What a function returns; the other value if it throws. */
export function orElse<Value, Other>(read: () => Value, other: Other): Value | Other {
  try {
    return read();
  } catch {
    return other;
  }
}

/** What an error says. */
export const messageOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause));

/** libuv has no name for EDQUOT (quota exceeded): Node's code for it is `Unknown system error -122`. */
const isQuota = (cause: unknown): boolean => errnoOf(cause) === -constants.errno.EDQUOT;

/** The code of a system error or of one of Node's own (`ENOSPC`, `ERR_INVALID_URL`); empty for any other cause. */
export function errorCode(cause: unknown): string {
  if (isQuota(cause)) return 'EDQUOT';
  return cause instanceof Error && 'code' in cause ? String(cause.code) : '';
}

/** Whether an error comes from the operating system. */
export const isSystemError = (cause: unknown): boolean => cause instanceof Error && 'errno' in cause;

/** Whether a write failed because the disk is full or a quota is used up. */
export const isDiskFull = (cause: unknown): boolean => ['ENOSPC', 'EDQUOT'].includes(errorCode(cause));

/** The file system that a path is on, or would be; null if that is unknown. */
function fileSystemOf(place: string): StatsFs | null {
  try {
    return statfsSync(place);
  } catch (cause) {
    const above = path.dirname(place);
    return isMissing(cause) && above !== place ? fileSystemOf(above) : null;
  }
}

/** Inodes that programs may have freed since one of them found none. */
const fewInodes = 10;

/** Whether a file system with free space has no inode for another file, or nearly none. */
export function lacksInodes(place: string): boolean {
  const system = fileSystemOf(place);
  return system !== null && system.files > 0 && system.ffree <= fewInodes && system.bavail > 0;
}

/**
 * Whether a write failed because there are no inodes, although the disk has space. Its error has the code of a full disk.
 * @param place where it was written, if the error does not say it
 */
export function isOutOfInodes(cause: unknown, place?: string): boolean {
  if (errorCode(cause) !== 'ENOSPC') return false;
  const named = place ?? (cause as NodeJS.ErrnoException).path;
  return named !== undefined && lacksInodes(path.resolve(named));
}

/** Whether a write failed because its file would become larger than this process, or the file system, may make one. */
export const isFileTooLarge = (cause: unknown): boolean => errorCode(cause) === 'EFBIG';

/** Whether a call failed because this user lacks permission, or the file system is read-only. */
export const isForbidden = (cause: unknown): boolean =>
  ['EACCES', 'EPERM', 'EROFS'].includes(errorCode(cause));

/** Whether a call failed because its path, or a part of it, does not exist. */
export const isMissing = (cause: unknown): boolean => ['ENOENT', 'ENOTDIR'].includes(errorCode(cause));

/** Whether a call failed because of a temporary shortage of descriptors, processes or memory. */
export const isShortage = (cause: unknown): boolean =>
  ['EMFILE', 'ENFILE', 'EAGAIN', 'ENOMEM'].includes(errorCode(cause));

/** Whether a part of this program could not be loaded: an upgrade takes its files away for a moment. */
export const isProgramAway = (cause: unknown): boolean =>
  ['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND'].includes(errorCode(cause));

/**
 * An error message without any path of this machine, fit for a client. A system error's own message contains the path.
 * @param place where something was written, if the error does not say it
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

/** Whether a path certainly does not exist; false if that is unknown. */
export const isGone = (file: string): boolean =>
  orElse(() => lstatSync(file, { throwIfNoEntry: false }) === undefined, false);
