import { constants } from 'node:os';
import { getSystemErrorMap } from 'node:util';

const errnoOf = (cause: unknown): number =>
  cause instanceof Error && 'errno' in cause ? Number(cause.errno) : 0;

/** A full quota has no name in libuv: Node calls its code `Unknown system error -122`. */
const isQuota = (cause: unknown): boolean => errnoOf(cause) === -constants.errno.EDQUOT;

/** The code of a system error or of one of Node's own (`ENOSPC`, `ERR_INVALID_URL`); empty for any other cause. */
export function errorCode(cause: unknown): string {
  if (isQuota(cause)) return 'EDQUOT';
  return cause instanceof Error && 'code' in cause ? String(cause.code) : '';
}

/** Whether the operating system refused something, with a code of its own. */
export const isSystemError = (cause: unknown): boolean => cause instanceof Error && 'errno' in cause;

/** Whether a write failed because the disk, the user's share of it, or the largest file that it takes, is full. */
export const isDiskFull = (cause: unknown): boolean =>
  ['ENOSPC', 'EDQUOT', 'EFBIG'].includes(errorCode(cause));

/** Whether a call failed because something is short at the moment that others give back: descriptors, memory. */
export const isShortage = (cause: unknown): boolean =>
  ['EMFILE', 'ENFILE', 'EAGAIN', 'ENOMEM'].includes(errorCode(cause));

/**
 * A fault in words that name no path of this machine: what a client may be told. A system error's own message holds
 * the path that it happened to.
 */
export function faultWithoutPath(cause: unknown): string {
  if (isQuota(cause)) return 'disk quota exceeded (EDQUOT)';
  const errno = errnoOf(cause);
  const known = getSystemErrorMap().get(errno);
  if (known) return `${known[1]} (${known[0]})`;
  // libuv has no words for these.
  const [name] = Object.entries(constants.errno).find(([, value]) => value === -errno) ?? [];
  if (errno < 0 && name !== undefined) return `the system refused it (${name})`;
  return cause instanceof Error ? cause.message : String(cause);
}
