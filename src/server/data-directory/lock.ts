import {
  closeSync,
  constants,
  ftruncateSync,
  openSync,
  readSync,
  rmSync,
  statfsSync,
  writeSync,
} from 'node:fs';
import { hostname } from 'node:os';
import path from 'node:path';
import { oneLine } from '../../contract/index.js';
import { errorCode, isStillNamed, lockPath, thisBoot, writeJsonFile } from '../../files/index.js';
import { SetupError } from '../setup-error.js';

/** Another server is using the data directory. */
export class DirectoryInUse extends SetupError {}

const { O_CREAT, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR } = constants;

/**
 * Local file systems, by their type number in `statfs`: ext2 to ext4, XFS, Btrfs, tmpfs, ZFS, F2FS, bcachefs,
 * overlay, FAT, exFAT, JFS.
 */
const localFileSystems = new Set([
  0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x2fc12fc1, 0xf2f52010, 0xca451a4e, 0x794c7630, 0x4d44,
  0x2011bab0, 0x3153464a,
]);

/** Maximum number of bytes read from `serve.lock`. */
const maxNoteBytes = 4096;

/** Path of the file that says which server holds the lock. */
const lockFileOf = (directory: string): string => path.join(directory, 'serve.lock');

/**
 * Locks `serve.lock` itself, which must be a regular file.
 * @param isMade whether to create the file if it is missing
 * @returns null if the file is missing and was not created
 */
function lockFile(file: string, isMade: boolean): ReturnType<typeof lockPath> | null {
  try {
    return lockPath(file, O_RDWR | (isMade ? O_CREAT : 0) | O_NOFOLLOW | O_NONBLOCK);
  } catch (cause) {
    if (!isMade && errorCode(cause) === 'ENOENT') return null;
    if (!['EISDIR', 'ELOOP', 'ENXIO'].includes(errorCode(cause))) throw cause;
    const problem = `${file} is not a regular file, and is needed to lock the directory: remove it`;
    throw new SetupError(problem, { cause });
  }
}

/** Writes a note into the open lock file. Replacing the file would leave the new one unlocked. */
function writeInPlace(descriptor: number, text: string): void {
  ftruncateSync(descriptor, 0);
  writeSync(descriptor, text, 0);
}

/** Whether a lock on the directory is visible to everybody who can use the directory. */
const isLocal = (directory: string): boolean => localFileSystems.has(statfsSync(directory).type >>> 0);

/** Which server holds the lock according to `serve.lock`, as text for a message; empty if the file cannot be read. */
function holderNoted(file: string): string {
  let descriptor: number | undefined;
  try {
    // Must not follow a link of this name, or block on a FIFO.
    descriptor = openSync(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const buffer = Buffer.alloc(maxNoteBytes);
    const note = JSON.parse(buffer.toString('utf8', 0, readSync(descriptor, buffer)));
    const { host, pid, since } = Object(note) as Readonly<Record<string, unknown>>;
    if (!Number.isSafeInteger(pid) || typeof host !== 'string' || typeof since !== 'string') return '';
    return ` (process ${pid} on ${oneLine(host).slice(0, 255)}, since ${oneLine(since).slice(0, 40)})`;
  } catch {
    return '';
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

interface Held {
  readonly descriptor: number;
  /** Whether the lock is on `serve.lock` instead of the directory. */
  readonly isFile: boolean;
}

/**
 * Takes the lock of a directory.
 * @param isLooking whether to only check if the lock is available, without creating a file
 * @returns null if there is no `serve.lock` to lock, and none is created
 * @throws DirectoryInUse if another server holds the lock, SetupError if nothing can be locked
 */
function acquire(directory: string, isLooking: boolean): Held | null {
  const file = lockFileOf(directory);
  const isFile = !isLocal(directory);
  const outcome = isFile ? lockFile(file, !isLooking) : lockPath(directory, O_RDONLY | O_DIRECTORY);
  if (outcome === null) return null;
  if (outcome === 'taken') {
    throw new DirectoryInUse(
      `Another server${holderNoted(file)} uses the data directory ${directory}: stop it, or give this one another --data-dir`,
    );
  }
  if (outcome === 'noProgram') {
    throw new SetupError(
      "The program 'flock' is not on PATH: it locks the data directory; install the package util-linux",
    );
  }
  if ('failed' in outcome)
    throw new SetupError(`The data directory cannot be locked: ${oneLine(outcome.failed)}; try again`);
  if ('descriptor' in outcome) return { descriptor: outcome.descriptor, isFile };
  throw new SetupError(
    `The data directory ${directory} cannot be locked (${oneLine(outcome.unsupported)}), so two servers might work on it: ` +
      'put it on a file system that has locks (mount NFS without "nolock")',
  );
}

/**
 * Writes to `serve.lock` which server holds the lock. Errors are ignored: the note is for people, and the lock works without it.
 */
function noteHolder(directory: string, { descriptor, isFile }: Held): void {
  const note = { host: hostname(), pid: process.pid, boot: thisBoot(), since: new Date().toISOString() };
  try {
    if (isFile) writeInPlace(descriptor, `${JSON.stringify(note)}\n`);
    else writeJsonFile(lockFileOf(directory), note, { isKept: false });
  } catch {}
}

/** Removes the note and releases the lock. */
function release(directory: string, { descriptor, isFile }: Held): void {
  try {
    // A locked file stays: another server may be about to lock it.
    if (isFile) ftruncateSync(descriptor, 0);
    // The directory may have been moved, and another server may be using its old path.
    else if (isStillNamed(descriptor, directory)) rmSync(lockFileOf(directory), { force: true });
  } catch {
    // Errors are ignored, as for the note.
  }
  closeSync(descriptor);
}

/**
 * Checks whether this process could be the only server of a data directory. Writes nothing.
 * @param directory its real path
 * @throws DirectoryInUse if another server uses it, SetupError if `lockDataDirectory` would fail for any other reason
 */
export function lookAtLock(directory: string): void {
  const held = acquire(directory, true);
  if (held) closeSync(held.descriptor);
}

/**
 * Makes this process the only server of a data directory, with a kernel lock. The directory itself is locked, because a lock file
 * could be removed by mistake. On a file system that other machines may share, the file `serve.lock` is locked instead, because
 * NFS and the like share only locks on files. `serve.lock` also names the server that holds the lock, for people; nothing depends
 * on its content.
 * @param directory its real path
 * @returns a function that releases the lock
 * @throws SetupError if another server holds it, or nothing can be locked
 */
export function lockDataDirectory(directory: string): () => void {
  const held = acquire(directory, false);
  if (!held) throw new Error('serve.lock was made and is not there');
  noteHolder(directory, held);
  let isHeld = true;
  return () => {
    if (!isHeld) return;
    isHeld = false;
    release(directory, held);
  };
}
