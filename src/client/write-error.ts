import { exitCodes, quotePath } from '../contract/index.js';
import { errorCode, faultWithoutPath } from '../files/index.js';
import { ClientError } from './errors.js';

/** What a person can do about a write error, by its code. */
const remedies: Readonly<Record<string, string>> = {
  ENOSPC: 'free some space',
  EDQUOT: 'free some of your quota',
  EFBIG: 'allow larger files there (ulimit -f), or choose another file system',
  EROFS: 'choose a directory that can be written',
  EACCES: 'choose a directory that you may write to',
  EPERM: 'choose a directory that you may write to',
  EIO: 'check the disk',
};

/**
 * Something could not be written on this machine. Thrown where the write fails, so that it is never mistaken for a broken
 * connection, which would be retried.
 */
export class WriteError extends ClientError {
  override readonly name = 'WriteError';

  /** @param next what to do once there is room: `run '...'` */
  constructor(target: string, cause: unknown, next: string) {
    const remedy = remedies[errorCode(cause)] ?? 'look at what is there';
    super(
      `Cannot write ${quotePath(target)}: ${faultWithoutPath(cause)}; ${remedy}, then ${next}`,
      exitCodes.failed,
      { code: errorCode(cause) },
      { cause },
    );
  }
}

/** Runs a function that writes to `target`. System errors become a `WriteError`; errors that are explained stay as they are. */
export async function writing<T>(target: string, next: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (cause) {
    // zlib's errors have an `errno` as well, which is not the system's.
    const isOfSystem = cause instanceof Error && 'errno' in cause && !errorCode(cause).startsWith('Z_');
    throw isOfSystem ? new WriteError(target, cause, next) : cause;
  }
}
