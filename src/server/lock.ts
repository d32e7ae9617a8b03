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
    env: { PATH: `${process.env.PATH ?? ''}:/usr/bin:/bin` },
    timeout: 30_000,
    killSignal: 'SIGKILL',
  });
  if (errorCode(error) === 'ENOENT') {
    throw new SetupError(
      "The program 'flock' is not on PATH: it locks the data directory; install the package util-linux",
    );
  }
  if (error) return { unsupported: oneLine(error.message) };
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

/** The error for a lock file that cannot be opened: it must be a regular file. */
function lockFileError(file: string, cause: unknown): unknown {
  if (!['EISDIR', 'ELOOP', 'ENXIO'].includes(errorCode(cause))) return cause;
  return new SetupError(`${file} is no regular file, and is needed to lock the directory: remove it`, {
    cause,
  });
}

/** Locks `serve.lock`: for file systems that lock no directory, such as NFS. */
function lockFile(file: string): ReturnType<typeof lockPath> {
  try {
    return lockPath(file, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK);
  } catch (cause) {
    throw lockFileError(file, cause);
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

/**
 * Makes this process the only server of a data directory. The lock is the kernel's, on the directory itself; where the
 * file system locks no directories, on the file `serve.lock` in it. That file also says who has the lock; what it
 * holds decides nothing.
 * @returns what gives the lock back
 * @throws SetupError where another server has it, or where nothing can be locked
 */
export function lockDataDirectory(directory: string): () => void {
  const file = path.join(directory, 'serve.lock');
  let isFile = false;
  let outcome = lockPath(directory, O_RDONLY | O_DIRECTORY);
  if (typeof outcome === 'object' && 'unsupported' in outcome) {
    isFile = true;
    outcome = lockFile(file);
  }
  if (outcome === 'taken') {
    throw new SetupError(
      `Another server${holderInWords(file)} uses the data directory ${directory}: stop it, or give this one another --data-dir`,
    );
  }
  if ('unsupported' in outcome) {
    throw new SetupError(
      `The data directory ${directory} cannot be locked (${outcome.unsupported}), so two servers might work on it: ` +
        'put it on a file system that has locks (mount NFS without "nolock")',
    );
  }
  const { descriptor } = outcome;
  const note = ownNote();
  asFarAsPossible(() =>
    isFile ? writeInPlace(descriptor, `${JSON.stringify(note)}\n`) : writeJsonFile(file, note),
  );
  let isHeld = true;
  return () => {
    if (!isHeld) return;
    isHeld = false;
    // A file that is the lock stays: another server may be about to lock it.
    asFarAsPossible(() => (isFile ? ftruncateSync(descriptor, 0) : rmSync(file, { force: true })));
    closeSync(descriptor);
  };
}
