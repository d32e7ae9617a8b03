import { exitCodes } from '../contract/errors.js';
import { quotePath } from '../contract/quote.js';
import { errorCode, faultWithoutPath } from '../files/error-code.js';
import { ClientError } from './errors.js';

/** What a person can do about it, by the code of the fault. */
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
 * Something could not be written on this machine. It is thrown where it is written, so that it is never taken for a
 * connection that broke, and nothing is sent again.
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

/** Runs what writes to `target`; its faults become a `WriteError`, explained ones stay as they are. */
export async function writing<T>(target: string, next: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (cause) {
    // The inflater's faults have a number as well, of another table.
    const isOfSystem = cause instanceof Error && 'errno' in cause && !errorCode(cause).startsWith('Z_');
    throw isOfSystem ? new WriteError(target, cause, next) : cause;
  }
}
