import {
  accessSync,
  chmodSync,
  constants,
  lstatSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { errorCode, isDiskFull, isSystemError, makeDirectory, syncDirectorySync } from '../../files/index.js';
import { makeFifo } from '../../runner/index.js';
import { SetupError } from '../setup-error.js';
import { lookAtLock } from './lock.js';
import { lookAtOwnDirectories } from './own-directory.js';

/** Inodes that a start needs on an empty data directory, at most. */
const fewInodes = 10;

/** Why a file system takes no file, and what to do; null for what needs no more words than the system's. */
function shortage(directory: string, cause: unknown): string | null {
  switch (errorCode(cause)) {
    case 'ENOSPC':
      return lacksInodes(directory)
        ? 'its file system has no room for another file (ENOSPC, no inode is free): remove files there'
        : 'its disk is full (ENOSPC): free some space';
    case 'EDQUOT':
      return 'the disk quota of its user is used up (EDQUOT): free some of it, or raise it';
    case 'EROFS':
      return 'its file system is mounted read-only (EROFS): mount it writable, or choose another directory';
    case 'EMFILE':
      return 'this process has as many files open as it may (EMFILE): raise its limit (ulimit -n)';
    case 'ENFILE':
      return 'this machine has as many files open as it can (ENFILE): end some programs';
    case 'EFBIG':
      return 'this process may write no file of that size (EFBIG): raise its limit (ulimit -f)';
    default:
      return null;
  }
}

/** Whether the file system holds as many files as it can: the last inodes may have been given back meanwhile. */
function lacksInodes(directory: string): boolean {
  try {
    const { files, ffree, bavail } = statfsSync(directory);
    return files > 0 && ffree <= fewInodes && bavail > 0;
  } catch {
    return false;
  }
}

/** That a data directory cannot be written to, and why. */
export function unwritable(directory: string, cause: unknown): SetupError {
  const reason = shortage(directory, cause) ?? (cause instanceof Error ? cause.message : String(cause));
  return new SetupError(`The data directory ${directory} cannot be written to: ${reason}`, { cause });
}

/** @throws the system's error where this process may not do all with a directory that a server does with its own */
function checkAccess(directory: string): void {
  accessSync(directory, constants.R_OK | constants.W_OK | constants.X_OK);
}

/** Makes the data directory if it does not exist. @returns its real path, without links @throws SetupError */
export function prepareDataDirectory(given: string): string {
  let directory = given;
  try {
    makeDirectory(directory, 0o700);
    directory = realpathSync(given);
    chmodSync(directory, 0o700);
    checkAccess(directory);
    syncDirectorySync(path.dirname(directory));
    return directory;
  } catch (cause) {
    throw unwritable(directory, cause);
  }
}

/** The directory, or the nearest one above it that is there; a link that leads nowhere counts as there. */
function nearestDirectory(directory: string): string {
  const isThere = lstatSync(directory, { throwIfNoEntry: false }) !== undefined;
  return isThere ? directory : nearestDirectory(path.dirname(directory));
}

/** @throws an error where the mode of a directory cannot be set, which only its owner and root may do */
function checkOwner(directory: string): void {
  const { uid } = statSync(directory);
  const user = process.geteuid?.() ?? uid;
  if (user !== 0 && user !== uid) throw new Error('it belongs to another user');
}

/**
 * Looks whether a start could use a data directory. Makes nothing that stays.
 * @returns whether it is there; a start makes it otherwise
 * @throws DirectoryInUse if another server works on it, SetupError for what else a start refuses
 */
export function lookAtDataDirectory(given: string): boolean {
  let directory = given;
  try {
    directory = nearestDirectory(given);
    const isThere = directory === given;
    directory = realpathSync(directory);
    checkAccess(directory);
    if (isThere) checkOwner(directory);
    checkFileSystem(directory);
    if (isThere) {
      lookAtOwnDirectories(directory);
      lookAtLock(directory);
    }
    return isThere;
  } catch (cause) {
    if (cause instanceof SetupError) throw cause;
    throw unwritable(directory, cause);
  }
}

const advice = 'put it on a file system such as ext4, XFS, Btrfs or NFS';

/**
 * Whether a FIFO can be made; every job prints into one (`runner/pipes`).
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
