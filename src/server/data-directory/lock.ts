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
import { refuseCopy } from './copy-check.js';
import { holderInWords, ownNote } from './lock-note.js';

const { O_CREAT, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR } = constants;

/**
 * Local file systems, by their type number in `statfs`: ext2 to ext4, XFS, Btrfs, tmpfs, ZFS, F2FS, bcachefs,
 * overlay, FAT, exFAT, JFS.
 */
const localFileSystems = new Set([
  0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x2fc12fc1, 0xf2f52010, 0xca451a4e, 0x794c7630, 0x4d44,
  0x2011bab0, 0x3153464a,
]);

/** Locks `serve.lock` itself, which must be a regular file. */
function lockFile(file: string): ReturnType<typeof lockPath> {
  try {
    return lockPath(file, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK);
  } catch (cause) {
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

/** The descriptors that have the lock. */
interface Held {
  readonly descriptors: readonly number[];
  /** The descriptor of `serve.lock`, if that is locked as well. */
  readonly file: number | null;
}

/** @throws SetupError if another server has the lock, nothing can be locked, or the directory is a copy of one in use */
function acquire(directory: string, file: string): Held {
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
      throw new SetupError(
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
    const own = isEnough ? null : take(lockFile(file), true);
    refuseCopy(directory);
    return { file: own, descriptors };
  } catch (cause) {
    for (const descriptor of descriptors) closeSync(descriptor);
    throw cause;
  }
}

/**
 * Makes this process the only server of a data directory, by a lock of the kernel. The directory itself is locked, because a
 * lock file could be removed by mistake. If other machines may share the file system, the file `serve.lock` is locked as
 * well, since NFS and similar file systems share only locks on files. `serve.lock` also says who has the lock; its content
 * decides nothing.
 * @returns a function that releases the lock
 * @throws SetupError if another server has it, or nothing can be locked
 */
export function lockDataDirectory(directory: string): () => void {
  const file = path.join(directory, 'serve.lock');
  const held = acquire(directory, file);
  const own = held.file;
  const note = ownNote();
  asFarAsPossible(() =>
    own === null
      ? writeJsonFile(file, note, { isKept: false })
      : writeInPlace(own, `${JSON.stringify(note)}\n`),
  );
  let isHeld = true;
  return () => {
    if (!isHeld) return;
    isHeld = false;
    // If the file is the lock it stays: another server may be about to lock it. The file also stays if the directory was
    // moved and another server works at its old path.
    const isOurs = held.descriptors.every((each) => each === own || isStillNamed(each, directory));
    asFarAsPossible(() => {
      if (own !== null) ftruncateSync(own, 0);
      else if (isOurs) rmSync(file, { force: true });
    });
    for (const descriptor of held.descriptors) closeSync(descriptor);
  };
}
