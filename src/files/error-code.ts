/** The code of a system error or of one of Node's own (`ENOSPC`, `ERR_INVALID_URL`); empty for any other cause. */
export const errorCode = (cause: unknown): string =>
  cause instanceof Error && 'code' in cause ? String(cause.code) : '';
