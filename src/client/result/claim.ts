import { closeSync, constants } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { errorCode } from '../../files/error-code.js';
import { lockPath } from '../../files/file-lock.js';
import { claimName } from '../earlier-results.js';
import { claimedBy } from './destination.js';

const lockFlags = constants.O_RDWR | constants.O_NOFOLLOW;

/**
 * The file in a directory that names the job for which it is being filled. It is locked as long as its command runs, where the
 * system has locks: one that was broken off is told from one that runs.
 */
export class Claim {
  /** @param descriptor has the lock; null without one */
  private constructor(
    private readonly file: string,
    private readonly descriptor: number | null,
  ) {}

  /**
   * @param isReplaced whether the claim of another job is taken over, if its command does not run any more
   * @returns null if it belongs to another job, or its command runs
   */
  static async take(directory: string, jobId: string, isReplaced: boolean): Promise<Claim | null> {
    const file = path.join(directory, claimName);
    const isNew = await writeFile(file, `${jobId}\n`, { flag: 'wx' }).then(
      () => true,
      (cause) => {
        if (errorCode(cause) !== 'EEXIST') throw cause;
        return false;
      },
    );
    if (!isNew && !isReplaced && claimedBy(directory) !== jobId) return null;
    const lock = lockClaim(file);
    if (lock === 'taken') return null;
    const taken = new Claim(file, lock);
    // Another command may have changed it before it was locked.
    if (claimedBy(directory) === jobId) return taken;
    if (!isReplaced) {
      taken.leave();
      return null;
    }
    // One that cannot be locked may be somebody else's, who allows nobody to write to it.
    if (lock === null) await rm(file, { force: true });
    await writeFile(file, `${jobId}\n`);
    return taken;
  }

  /** Whether no other command can have it. */
  get isLocked(): boolean {
    return this.descriptor !== null;
  }

  /** Lets go of it: the directory is filled, or belongs to nobody. Never throws. */
  async remove(): Promise<void> {
    await rm(this.file, { force: true }).catch(() => {});
    this.leave();
  }

  /** Leaves it there, for the command that goes on with the same job. */
  leave(): void {
    if (this.descriptor !== null) closeSync(this.descriptor);
  }
}

/** @returns the descriptor that has the lock; null where it cannot be locked */
function lockClaim(file: string): number | 'taken' | null {
  try {
    const lock = lockPath(file, lockFlags);
    if (lock === 'taken') return 'taken';
    return typeof lock === 'object' && 'descriptor' in lock ? lock.descriptor : null;
  } catch (cause) {
    // Its command has removed it since.
    return errorCode(cause) === 'ENOENT' ? 'taken' : null;
  }
}
