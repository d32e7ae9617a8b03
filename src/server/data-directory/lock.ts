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
import { writeJsonFile } from '../../files/atomic-json.js';
import { errorCode } from '../../files/error-code.js';
import { SetupError } from '../setup-error.js';
import { isStillNamed, lockPath } from './flock.js';
import { holderInWords, ownNote } from './lock-note.js';

const { O_CREAT, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR } = constants;

/**
 * File systems of one machine, by their number in `statfs`: ext2 to ext4, XFS, Btrfs, tmpfs, ZFS, F2FS, bcachefs,
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
    const problem = `${file} is no regular file, and is needed to lock the directory: remove it`;
    throw new SetupError(problem, { cause });
  }
}

/** Writes a note into the lock file itself: one that replaced it would not be what is locked. */
function writeInPlace(descriptor: number, text: string): void {
  ftruncateSync(descriptor, 0);
  writeSync(descriptor, text, 0);
}

/** The note is for people: where it cannot be written or removed, the lock holds all the same. */
function asFarAsPossible(action: () => void): void {
  try {
    action();
  } catch {}
}

/** Whether a lock of a directory holds for everybody who can reach it. */
const isLocal = (directory: string): boolean => localFileSystems.has(statfsSync(directory).type >>> 0);

/** The option by which the file system that a directory lies on locks for this machine alone; undefined for none. */
function localLockOption(directory: string): string | undefined {
  try {
    const { dev } = statSync(directory);
    // The C library's encoding of a device number.
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
  /** The one of `serve.lock`, where that is locked. */
  readonly file: number | null;
}

/** @throws SetupError where another server has the lock, or where nothing can be locked */
function acquire(directory: string, file: string): Held {
  const option = localLockOption(directory);
  if (option !== undefined) {
    throw new SetupError(
      `The data directory ${directory} is on NFS whose locks hold on this machine alone (${option}), so two servers ` +
        'might work on it: mount it without "nolock" and "local_lock"',
    );
  }
  const descriptors: number[] = [];
  /** @returns the descriptor; null where it cannot be locked and another lock is to be had */
  const take = (outcome: ReturnType<typeof lockPath>, isNeeded: boolean): number | null => {
    if (outcome === 'taken') {
      throw new SetupError(
        `Another server${holderInWords(file)} uses the data directory ${directory}: stop it, or give this one another --data-dir`,
      );
    }
    if ('descriptor' in outcome) {
      descriptors.push(outcome.descriptor);
      return outcome.descriptor;
    }
    if (!isNeeded) return null;
    throw new SetupError(
      `The data directory ${directory} cannot be locked (${outcome.unsupported}), so two servers might work on it: ` +
        'put it on a file system that has locks (mount NFS without "nolock")',
    );
  };
  try {
    const isEnough = isLocal(directory);
    take(lockPath(directory, O_RDONLY | O_DIRECTORY), isEnough);
    return { file: isEnough ? null : take(lockFile(file), true), descriptors };
  } catch (cause) {
    for (const descriptor of descriptors) closeSync(descriptor);
    throw cause;
  }
}

/**
 * Makes this process the only server of a data directory. The lock is the kernel's. It is on the directory itself,
 * which cannot be removed by mistake as a file can; and, where the file system may be shared with other machines, on
 * the file `serve.lock` too: NFS and its like pass on the locks of files alone. That file also says who has the lock;
 * what it holds decides nothing.
 * @returns what gives the lock back
 * @throws SetupError where another server has it, or where nothing can be locked
 */
export function lockDataDirectory(directory: string): () => void {
  const file = path.join(directory, 'serve.lock');
  const held = acquire(directory, file);
  const own = held.file;
  const note = ownNote();
  asFarAsPossible(() =>
    own === null ? writeJsonFile(file, note) : writeInPlace(own, `${JSON.stringify(note)}\n`),
  );
  let isHeld = true;
  return () => {
    if (!isHeld) return;
    isHeld = false;
    // A file that is the lock stays: another server may be about to lock it.
    // Nor is the note of a server that has come to the path of a directory which was moved.
    const isOurs = held.descriptors.every((each) => each === own || isStillNamed(each, directory));
    asFarAsPossible(() => {
      if (own !== null) ftruncateSync(own, 0);
      else if (isOurs) rmSync(file, { force: true });
    });
    for (const descriptor of held.descriptors) closeSync(descriptor);
  };
}
