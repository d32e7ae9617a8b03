import { spawnSync } from 'node:child_process';
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statfsSync,
  statSync,
  writeSync,
} from 'node:fs';
import { hostname } from 'node:os';
import path from 'node:path';
import { oneLine } from '../contract/quote.js';
import { writeJsonFile } from '../files/atomic-json.js';
import { errorCode } from '../files/error-code.js';
import { SetupError } from './setup-error.js';

const { O_CREAT, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR } = constants;

/** How often the thing to lock may be replaced by another while it is being locked. */
const attempts = 10;

/** Bytes of `serve.lock` that are looked at. */
const longestNote = 4096;

/**
 * File systems of one machine, by their number in `statfs`: ext2 to ext4, XFS, Btrfs, tmpfs, ZFS, F2FS, bcachefs,
 * overlay, FAT, exFAT, JFS.
 */
const localFileSystems = new Set([
  0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x2fc12fc1, 0xf2f52010, 0xca451a4e, 0x794c7630, 0x4d44,
  0x2011bab0, 0x3153464a,
]);

/** What came of locking one descriptor; `unsupported` is the reason why it cannot be locked at all. */
type Outcome = 'locked' | 'taken' | { readonly unsupported: string };

/**
 * Asks the kernel for the lock of an open file, without waiting. Node has no call for it, so the program `flock` makes
 * it on an inherited descriptor: the lock belongs to the open file, which stays open in this process alone. The kernel
 * drops it with the process, however that ends; and it holds in every container and, on NFS, on every machine.
 */
function lockDescriptor(descriptor: number): Outcome {
  const { status, signal, stderr, error } = spawnSync('flock', ['-x', '-n', '3'], {
    stdio: ['ignore', 'ignore', 'pipe', descriptor],
    encoding: 'utf8',
    cwd: '/',
    // A service manager may set no PATH.
    env: { PATH: `${process.env.PATH ?? ''}:/usr/bin:/bin`, LC_ALL: 'C' },
    timeout: 30_000,
    killSignal: 'SIGKILL',
  });
  if (errorCode(error) === 'ENOENT') {
    throw new SetupError(
      "The program 'flock' is not on PATH: it locks the data directory; install the package util-linux",
    );
  }
  // It says nothing of whether somebody has the lock.
  if (error)
    throw new SetupError(`The data directory cannot be locked: ${oneLine(error.message)}; try again`);
  if (status === 0) return 'locked';
  const words = oneLine(stderr.trim());
  // With nothing to say it means that somebody else has the lock.
  if (status === 1 && words === '') return 'taken';
  return { unsupported: words || `flock ended with ${signal ?? status}` };
}

/** Whether the path still names what is open: it may have been removed or replaced in between. */
function isStillNamed(descriptor: number, name: string): boolean {
  const open = fstatSync(descriptor, { bigint: true });
  const named = statSync(name, { bigint: true, throwIfNoEntry: false });
  return named !== undefined && named.dev === open.dev && named.ino === open.ino;
}

/**
 * Opens and locks what a path names.
 * @returns the descriptor that has the lock, or why there is none
 */
function lockPath(name: string, flags: number): { readonly descriptor: number } | Exclude<Outcome, 'locked'> {
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    const descriptor = openSync(name, flags, 0o600);
    let isKept = false;
    try {
      const outcome = lockDescriptor(descriptor);
      if (outcome !== 'locked') return outcome;
      isKept = isStillNamed(descriptor, name);
      if (isKept) return { descriptor };
    } finally {
      if (!isKept) closeSync(descriptor);
    }
  }
  return { unsupported: `${name} was replaced again and again` };
}

/** Who has the lock, for a person; nothing depends on it. */
function ownNote() {
  let boot = '';
  try {
    boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {}
  return { host: hostname(), pid: process.pid, boot, since: new Date().toISOString() };
}

/** What `serve.lock` says of who has the lock, in words; empty where it says nothing that can be read. */
function holderInWords(file: string): string {
  let descriptor: number | undefined;
  try {
    // A link, a pipe or a directory of this name must neither be followed nor waited for.
    descriptor = openSync(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const buffer = Buffer.alloc(longestNote);
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

/** The descriptors that have the lock. */
interface Held {
  readonly descriptors: readonly number[];
  /** The one of `serve.lock`, where that is locked. */
  readonly file: number | null;
}

/** @throws SetupError where another server has the lock, or where nothing can be locked */
function acquire(directory: string, file: string): Held {
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
    asFarAsPossible(() => (own === null ? rmSync(file, { force: true }) : ftruncateSync(own, 0)));
    for (const descriptor of held.descriptors) closeSync(descriptor);
  };
}
