import {
  closeSync,
  constants,
  ftruncateSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';
import { oneLine } from '../../contract/quote.js';
import { writeJsonFile } from '../../files/atomic-json.js';
import { errorCode } from '../../files/error-code.js';
import { isStillNamed, lockPath } from '../../files/file-lock.js';
import { SetupError } from '../setup-error.js';
import { refuseJobsElsewhere } from './jobs-elsewhere.js';
import { holderInWords, ownNote } from './lock-note.js';
import { knownPlace, notePlace } from './place.js';

/** Another server works on the data directory. */
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

/** The name of the file that says who has the lock. */
const lockFileOf = (directory: string): string => path.join(directory, 'serve.lock');

/**
 * Locks `serve.lock` itself, which must be a regular file.
 * @param isMade whether it is made where it is missing
 * @returns null where it is missing and is not made
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

/** Ignores errors: the note is for people, and the lock holds without it. */
function asFarAsPossible(action: () => void): void {
  try {
    action();
  } catch {}
}

/** Whether a lock of a directory holds for everybody who can reach it. */
const isLocal = (directory: string): boolean => localFileSystems.has(statfsSync(directory).type >>> 0);

/** The mount option that makes locks local to this machine, if the directory's file system has one; else undefined. */
function localLockOption(directory: string): string | undefined {
  try {
    const { dev } = statSync(directory);
    // Decodes a device number as the C library does.
    const device = ` ${(dev >>> 8) & 0xfff}:${(dev & 0xff) | ((dev >>> 12) & 0xfff00)} `;
    const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
    const mount = mounts.find((line) => line.includes(device) && / - nfs4? /.test(line));
    return /\blocal_lock=(?:all|flock)\b/.exec(mount ?? '')?.[0];
  } catch {
    return undefined;
  }
}

/** The locks of one directory. */
interface Held {
  readonly directory: string;
  readonly descriptors: readonly number[];
  /** The descriptor of `serve.lock`, if that is locked as well. */
  readonly file: number | null;
}

/**
 * Takes the lock of a directory.
 * @param isLooking whether this only looks if the lock can be had, and makes no file
 * @throws DirectoryInUse if another server has the lock, SetupError if nothing can be locked
 */
function acquire(directory: string, isLooking: boolean): Held {
  const file = lockFileOf(directory);
  const option = localLockOption(directory);
  if (option !== undefined) {
    throw new SetupError(
      `The data directory ${directory} is on NFS whose locks hold on this machine alone (${option}), so two servers ` +
        'might work on it: mount it without "nolock" and "local_lock"',
    );
  }
  const descriptors: number[] = [];
  /** @returns the descriptor; null if it cannot be locked but another lock can be had */
  const take = (outcome: ReturnType<typeof lockPath>, isNeeded: boolean): number | null => {
    if (outcome === 'taken') {
      throw new DirectoryInUse(
        `Another server${holderInWords(file)} uses the data directory ${directory}: stop it, or give this one another --data-dir`,
      );
    }
    if (outcome === 'noProgram') {
      throw new SetupError(
        "The program 'flock' is not on PATH: it locks the data directory; install the package util-linux",
      );
    }
    if ('failed' in outcome)
      throw new SetupError(`The data directory cannot be locked: ${oneLine(outcome.failed)}; try again`);
    if ('descriptor' in outcome) {
      descriptors.push(outcome.descriptor);
      return outcome.descriptor;
    }
    if (!isNeeded) return null;
    throw new SetupError(
      `The data directory ${directory} cannot be locked (${oneLine(outcome.unsupported)}), so two servers might work on it: ` +
        'put it on a file system that has locks (mount NFS without "nolock")',
    );
  };
  try {
    const isEnough = isLocal(directory);
    take(lockPath(directory, O_RDONLY | O_DIRECTORY), isEnough);
    const locked = isEnough ? null : lockFile(file, !isLooking);
    return { directory, file: locked && take(locked, true), descriptors };
  } catch (cause) {
    for (const descriptor of descriptors) closeSync(descriptor);
    throw cause;
  }
}

/**
 * Takes the lock of a directory of which another one is a copy, so that no server starts on both.
 * @returns null if it cannot be locked, as by another user
 * @throws SetupError if a server works on it
 */
function acquireOriginal(original: string, copy: string, isLooking: boolean): Held | null {
  try {
    return acquire(original, isLooking);
  } catch (cause) {
    if (!(cause instanceof DirectoryInUse)) return null;
    throw new SetupError(
      `The data directory ${copy} is a copy of ${original}, on which another server${holderInWords(lockFileOf(original))} ` +
        'works: both would take the same jobs for theirs; stop that server first, when its jobs have ended',
      { cause },
    );
  }
}

/** Takes the locks of a directory and of those of which it is a copy. @throws SetupError as `lockDataDirectory` */
function acquireAll(directory: string, isLooking: boolean): readonly Held[] {
  const all = [acquire(directory, isLooking)];
  try {
    const { isSame, originals } = knownPlace(directory);
    for (const original of originals) {
      const held = acquireOriginal(original, directory, isLooking);
      if (held) all.push(held);
    }
    if (!isSame) refuseJobsElsewhere(directory);
    return all;
  } catch (cause) {
    for (const held of all) close(held);
    throw cause;
  }
}

function close({ descriptors }: Held): void {
  for (const descriptor of descriptors) closeSync(descriptor);
}

/** Notes in `serve.lock` which server has the lock, and on which directory it works. */
function noteHolder({ directory, file }: Held, worksOn: string): void {
  const note = ownNote(worksOn === directory ? null : worksOn);
  asFarAsPossible(() =>
    file === null
      ? writeJsonFile(lockFileOf(directory), note, { isKept: false })
      : writeInPlace(file, `${JSON.stringify(note)}\n`),
  );
}

/** Takes the note away and releases the lock. */
function release(held: Held): void {
  const { directory, descriptors, file } = held;
  // If the file is the lock it stays: another server may be about to lock it. The file also stays if the directory was
  // moved and another server works at its old path.
  const isOurs = descriptors.every((each) => each === file || isStillNamed(each, directory));
  asFarAsPossible(() => {
    if (file !== null) ftruncateSync(file, 0);
    else if (isOurs) rmSync(lockFileOf(directory), { force: true });
  });
  close(held);
}

/**
 * Looks whether this process could be the only server of a data directory. Writes nothing.
 * @param directory its real path
 * @throws DirectoryInUse if another server works on it, SetupError for what else `lockDataDirectory` refuses
 */
export function lookAtLock(directory: string): void {
  for (const held of acquireAll(directory, true)) close(held);
}

/**
 * Makes this process the only server of a data directory, by a lock of the kernel. The directory itself is locked, because a
 * lock file could be removed by mistake. If other machines may share the file system, the file `serve.lock` is locked as
 * well, since NFS and similar file systems share only locks on files. `serve.lock` also says who has the lock; its content
 * decides nothing. The directories of which this is a copy are locked as well, because their jobs have the same ids and
 * processes.
 * @param directory its real path
 * @returns a function that releases the locks
 * @throws SetupError if another server has one, nothing can be locked, or jobs of the original run
 */
export function lockDataDirectory(directory: string): () => void {
  const all = acquireAll(directory, false);
  for (const held of all) noteHolder(held, directory);
  notePlace(directory);
  let isHeld = true;
  return () => {
    if (!isHeld) return;
    isHeld = false;
    for (const held of all) release(held);
  };
}
