import { spawnSync } from 'node:child_process';
import { closeSync, fstatSync, openSync, statSync } from 'node:fs';
import { errorCode } from './errors.js';
import { startError } from './find-program.js';
import { privateMode } from './modes.js';

/** How often to try again if the path was replaced while it was being locked. */
const attempts = 100;

/**
 * The outcome of locking a descriptor. `unsupported` is the reason why it cannot be locked at all, in the words of the
 * system; `noProgram` says that there is no program `flock`; `failed` is why that could not be run.
 */
type Outcome =
  | 'locked'
  | 'taken'
  | 'noProgram'
  | { readonly failed: string }
  | { readonly unsupported: string };

/**
 * Asks the kernel for the lock of an open file. Node has no call for it, so the program `flock` does it on an inherited
 * descriptor: the lock belongs to the open file description, which this process alone keeps. The kernel drops the lock
 * when the process ends in any way, and the lock is visible in every container and, on NFS, on every machine.
 */
function lockDescriptor(descriptor: number, patience: number): Outcome {
  const wait = patience === 0 ? ['-n'] : ['-w', String(patience)];
  // A service manager may leave PATH unset.
  const searchPath = `${process.env.PATH ?? ''}:/usr/bin:/bin`;
  const { status, signal, stderr, error } = spawnSync('flock', ['-x', ...wait, '3'], {
    stdio: ['ignore', 'ignore', 'pipe', descriptor],
    encoding: 'utf8',
    cwd: '/',
    env: { PATH: searchPath, LC_ALL: 'C' },
    timeout: 30_000,
    killSignal: 'SIGKILL',
  });
  if (errorCode(startError(error, 'flock', searchPath)) === 'ENOENT') return 'noProgram';
  // This does not say whether somebody has the lock.
  if (error) return { failed: error.message };
  if (status === 0) return 'locked';
  const words = stderr.trim();
  // A failure without a message means that somebody else has the lock.
  if (status === 1 && words === '') return 'taken';
  return { unsupported: words || `flock ended with ${signal ?? status}` };
}

/** Whether the path still leads to the open file: it may have been removed or replaced in the meantime. */
export function isStillNamed(descriptor: number, name: string): boolean {
  const open = fstatSync(descriptor, { bigint: true });
  const named = statSync(name, { bigint: true, throwIfNoEntry: false });
  return named !== undefined && named.dev === open.dev && named.ino === open.ino;
}

/**
 * Opens and locks a file or directory.
 * @param patience seconds to wait for whoever has the lock
 * @returns the descriptor that has the lock, or why there is none
 * @throws the system's error if it cannot be opened
 */
export function lockPath(
  name: string,
  flags: number,
  patience = 0,
): { readonly descriptor: number } | Exclude<Outcome, 'locked'> {
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    const descriptor = openSync(name, flags, privateMode);
    let isKept = false;
    try {
      const outcome = lockDescriptor(descriptor, patience);
      if (outcome !== 'locked') return outcome;
      isKept = isStillNamed(descriptor, name);
      if (isKept) return { descriptor };
    } finally {
      if (!isKept) closeSync(descriptor);
    }
  }
  return { unsupported: `${name} was replaced again and again` };
}
