import { chmodSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { isDiskFull, isSystemError } from '../../files/error-code.js';
import { makeFifo } from '../../runner/index.js';
import { SetupError } from '../setup-error.js';

const advice = 'put it on a file system such as ext4, XFS, Btrfs or NFS';

/**
 * Whether a FIFO can be made; every job prints into one (`runner/output-pipe`).
 * @throws the system's error where no other file can be made either: that is what is wrong
 */
function takesFifos(fifo: string): boolean {
  try {
    makeFifo(fifo);
    return true;
  } catch (cause) {
    // The program could not be started, which says nothing about the file system.
    if (isSystemError(cause)) return true;
    writeFileSync(fifo, '');
    return false;
  }
}

/** Makes a directory for the checks. Null on a full disk: an earlier server may have running jobs on it. */
function makeProbe(directory: string): string | null {
  try {
    return mkdtempSync(path.join(directory, 'probe-'));
  } catch (cause) {
    if (isDiskFull(cause)) return null;
    throw cause;
  }
}

/**
 * Checks that the file system has what every job needs: permissions and FIFOs. FAT, exFAT and many network shares have
 * neither; saying so at the start is better than letting each job fail. On a full disk nothing can be tried: an earlier server
 * may have running jobs on it, and what else a start needs is said where it fails.
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
  } catch (cause) {
    if (!isDiskFull(cause)) throw cause;
  } finally {
    rmSync(probe, { recursive: true, force: true });
  }
}
