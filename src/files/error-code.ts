import { getSystemErrorMap } from 'node:util';

/** The code of a system error or of one of Node's own (`ENOSPC`, `ERR_INVALID_URL`); empty for any other cause. */
export const errorCode = (cause: unknown): string =>
  cause instanceof Error && 'code' in cause ? String(cause.code) : '';

/** Whether the operating system refused something, with a code of its own. */
export const isSystemError = (cause: unknown): boolean => cause instanceof Error && 'errno' in cause;

/** Whether a write failed because the disk, or the user's share of it, is full. */
export const isDiskFull = (cause: unknown): boolean => ['ENOSPC', 'EDQUOT'].includes(errorCode(cause));

/**
 * A fault in words that name no path of this machine: what a client may be told. A system error's own message holds
 * the path that it happened to.
 */
export function faultWithoutPath(cause: unknown): string {
  const errno = cause instanceof Error && 'errno' in cause ? Number(cause.errno) : 0;
  const known = getSystemErrorMap().get(errno);
  if (known) return `${known[1]} (${known[0]})`;
  return cause instanceof Error ? cause.message : String(cause);
}
