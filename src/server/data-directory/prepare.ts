import {
  accessSync,
  chmodSync,
  constants,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { quoteName } from '../../contract/index.js';
import {
  errorCode,
  faultWithoutPath,
  isDiskFull,
  isSystemError,
  lacksInodes,
  makeDirectory,
  messageOf,
  syncDirectorySync,
} from '../../files/index.js';
import { makeFifo } from '../../runner/index.js';
import type { Report } from '../report.js';
import { SetupError } from '../setup-error.js';
import { lookAtLock } from './lock.js';

/** Names of the directories that a server creates in its data directory. */
const names = ['jobs', 'incoming', 'trash', 'uploads'] as const;
type OwnName = (typeof names)[number];

/** Whether the directory may be a link: an admin may keep the jobs elsewhere on the same file system. */
const mayBeLink = (name: OwnName): boolean => name === 'jobs';

/**
 * Creates one of the server's directories, such as `jobs`. A file or link of the same name is set aside. All of them must be on
 * one file system, because jobs are moved between them by renaming.
 * @returns its path
 * @throws SetupError if it is on another file system
 */
export function ownDirectory(dataDirectory: string, name: OwnName, report: Report): string {
  const directory = path.join(dataDirectory, name);
  const look = mayBeLink(name) ? statSync : lstatSync;
  const stats = look(directory, { throwIfNoEntry: false });
  if (stats && !stats.isDirectory()) {
    setAside(dataDirectory, directory, `the server needs a directory called ${name}`, report);
  }
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  checkSameFileSystem(directory, dataDirectory);
  return directory;
}

/** @throws SetupError */
function checkSameFileSystem(directory: string, dataDirectory: string): void {
  if (statSync(directory).dev === statSync(dataDirectory).dev) return;
  throw new SetupError(
    `${directory} is on another file system than ${dataDirectory}; mount the data directory as one`,
  );
}

/** @throws the system's error if this process may not read, write and search a directory */
function checkAccess(directory: string): void {
  accessSync(directory, constants.R_OK | constants.W_OK | constants.X_OK);
}

/**
 * Checks whether a server could use the directories that an earlier server created. Changes nothing.
 * @throws SetupError if one is on another file system, or the system's error if it cannot be used
 */
function lookAtOwnDirectories(dataDirectory: string): void {
  for (const name of names) {
    const directory = path.join(dataDirectory, name);
    const own = lstatSync(directory, { throwIfNoEntry: false });
    // A start sets aside anything that is not a directory.
    const isUsed = own?.isDirectory() || (own?.isSymbolicLink() && mayBeLink(name));
    if (!isUsed) continue;
    checkAccess(directory);
    checkSameFileSystem(directory, dataDirectory);
  }
}

/**
 * Moves an entry that is not a job, or that cannot be read, to `DATA/set-aside`, and reports it. Its content is left unchanged
 * for the admin to look at. An entry that cannot be moved stays where it is.
 */
export function setAside(dataDirectory: string, entry: string, why: string, report: Report): void {
  const directory = path.join(dataDirectory, 'set-aside');
  // The time distinguishes entries of the same name, and shows a person when it happened.
  const stamp = new Date().toISOString().replaceAll(':', '-');
  const target = path.join(directory, `${path.basename(entry)}.${stamp}`);
  const name = quoteName(path.basename(entry));
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    renameSync(entry, target);
    report(`Set aside ${name} as ${target}`, why);
  } catch (cause) {
    report(`Left ${name} where it is, in ${path.dirname(entry)}`, `${why}; ${faultWithoutPath(cause)}`);
  }
}

/** Reads a file of the data directory, if it exists. An unreadable file is set aside, so that the server can still start. */
export function readOrSetAside(dataDirectory: string, file: string, report: Report, read: () => void): void {
  try {
    read();
  } catch (cause) {
    if (errorCode(cause) !== 'ENOENT') setAside(dataDirectory, file, messageOf(cause), report);
  }
}

/** Why a file system cannot store a file, and what the admin can do; null if the system's own message is enough. */
function shortage(directory: string, cause: unknown): string | null {
  switch (errorCode(cause)) {
    case 'ENOSPC':
      return lacksInodes(directory)
        ? 'no inodes (files) are left on its disk (ENOSPC): remove files there'
        : 'its disk is full (ENOSPC): free some space';
    case 'EDQUOT':
      return 'the disk quota of its user is used up (EDQUOT): free some of it, or raise it';
    case 'EROFS':
      return 'its file system is mounted read-only (EROFS): mount it writable, choose another directory, or add it to ReadWritePaths of the systemd unit';
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

/** The error for a data directory that cannot be written to. */
export function unwritable(directory: string, cause: unknown): SetupError {
  const reason = shortage(directory, cause) ?? messageOf(cause);
  return new SetupError(`The data directory ${directory} cannot be written to: ${reason}`, { cause });
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

/** The directory, or the nearest existing one above it. A dangling link counts as existing. */
function nearestDirectory(directory: string): string {
  const isThere = lstatSync(directory, { throwIfNoEntry: false }) !== undefined;
  return isThere ? directory : nearestDirectory(path.dirname(directory));
}

/** @throws an error if this process may not set the mode of a directory, which only its owner and root may do */
function checkOwner(directory: string): void {
  const { uid } = statSync(directory);
  const user = process.geteuid?.() ?? uid;
  if (user !== 0 && user !== uid) throw new Error('it belongs to another user');
}

/**
 * Checks whether a server could start on a data directory. Leaves nothing behind.
 * @returns whether the directory exists; otherwise the start creates it
 * @throws DirectoryInUse if another server uses it, SetupError for any other reason why a start would fail
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
 * Whether a FIFO can be created; every job prints into one (`runner/pipes`).
 * @throws the system's error if a regular file cannot be created either, which is then the real problem
 */
function takesFifos(fifo: string): boolean {
  try {
    makeFifo(fifo);
    return true;
  } catch (cause) {
    // If `makeFifo` could not start its program, that says nothing about the file system.
    if (isSystemError(cause)) return true;
    writeFileSync(fifo, '');
    return false;
  }
}

/** Creates a directory for the checks. Null on a full disk, where jobs of an earlier server may still run. */
function makeProbe(directory: string): string | null {
  try {
    return mkdtempSync(path.join(directory, 'probe-'));
  } catch (cause) {
    if (isDiskFull(cause)) return null;
    throw cause;
  }
}

/**
 * Checks that the file system supports what every job needs: permissions and FIFOs. FAT, exFAT and many network shares support
 * neither, which is better reported at the start than by each failing job. If the disk is full, nothing is checked, because jobs
 * of an earlier server may still be running there.
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
