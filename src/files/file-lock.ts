import { spawnSync } from 'node:child_process';
import { closeSync, fstatSync, openSync, statSync } from 'node:fs';
import { errorCode } from './errors.js';
import { startError } from './find-program.js';
import { privateMode } from './modes.js';

/** Number of attempts if the path is replaced while it is being locked. */
const attempts = 100;

/**
 * The outcome of locking a descriptor. `unsupported` is the system's reason why the descriptor cannot be locked at all;
 * `noProgram` means that the program `flock` does not exist; `failed` is the reason why `flock` could not be run.
 */
type Outcome =
  | 'locked'
  | 'taken'
  | 'noProgram'
  | { readonly failed: string }
  | { readonly unsupported: string };

/**
 * Asks the kernel to lock an open file. Node has no call for this, so the program `flock` locks an inherited descriptor: the lock
 * belongs to the open file description, which only this process keeps open. The kernel releases the lock however the process
 * ends, and the lock is visible in every container and, on NFS, on every machine.
 */
function lockDescriptor(descriptor: number, patience: number): Outcome {
  const wait = patience === 0 ? ['-n'] : ['-w', String(patience)];
  // PATH may be unset under a service manager.
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
  // Does not tell whether another process has the lock.
  if (error) return { failed: error.message };
  if (status === 0) return 'locked';
  const words = stderr.trim();
  // A failure without a message means that another process has the lock.
  if (status === 1 && words === '') return 'taken';
  return { unsupported: words || `flock ended with ${signal ?? status}` };
}

/** Whether the path still leads to the open file, which may have been removed or replaced in the meantime. */
export function isStillNamed(descriptor: number, name: string): boolean {
  const open = fstatSync(descriptor, { bigint: true });
  const named = statSync(name, { bigint: true, throwIfNoEntry: false });
  return named !== undefined && named.dev === open.dev && named.ino === open.ino;
}

/**
 * Opens and locks a file or directory.
 * @param patience seconds to wait if another process has the lock
 * @returns the descriptor that holds the lock, or why there is none
 * @throws the system's error if the path cannot be opened
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
