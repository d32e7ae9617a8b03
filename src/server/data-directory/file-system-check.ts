import { chmodSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { isDiskFull, isSystemError } from '../../files/error-code.js';
import { makeFifo } from '../../runner/output-pipe.js';
import { SetupError } from '../setup-error.js';

const advice = 'put it on a file system such as ext4, XFS, Btrfs or NFS';

/** Whether a FIFO can be made; every job prints into one (`runner/output-pipe`). */
function takesFifos(fifo: string): boolean {
  try {
    makeFifo(fifo);
    return true;
  } catch (cause) {
    // The program could not be started, which says nothing of the file system.
    return isSystemError(cause);
  }
}

/** A directory to try things in; null on a full disk, on which an earlier server may have jobs that go on. */
function makeProbe(directory: string): string | null {
  try {
    return mkdtempSync(path.join(directory, 'probe-'));
  } catch (cause) {
    if (isDiskFull(cause)) return null;
    throw cause;
  }
}

/**
 * Tries, in a directory of its own, what every job needs of a file system. FAT and exFAT, and many a network share, have
 * neither: said at the start, and not by each job.
 * @throws SetupError
 */
export function checkFileSystem(directory: string): void {
  const probe = makeProbe(directory);
  if (probe === null) return;
  try {
    chmodSync(probe, 0o700);
    if ((statSync(probe).mode & 0o077) !== 0) {
      throw new SetupError(
        `The file system of the data directory ${directory} keeps no permissions, so every user of this machine could ` +
          `read its jobs: ${advice}`,
      );
    }
    if (!takesFifos(path.join(probe, 'fifo'))) {
      throw new SetupError(
        `The file system of the data directory ${directory} has no named pipes (FIFOs), which every job needs: ${advice}`,
      );
    }
  } finally {
    rmSync(probe, { recursive: true, force: true });
  }
}
