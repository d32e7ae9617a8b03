import { spawnSync } from 'node:child_process';
import { closeSync, fstatSync, openSync, statSync } from 'node:fs';
import { oneLine } from '../../contract/quote.js';
import { errorCode } from '../../files/error-code.js';
import { SetupError } from '../setup-error.js';

/** How often to try again if the path was replaced while it was being locked. */
const attempts = 10;

/** The outcome of locking a descriptor. `unsupported` is the reason why it cannot be locked at all. */
type Outcome = 'locked' | 'taken' | { readonly unsupported: string };

/**
 * Asks the kernel for the lock of an open file, without waiting. Node has no call for it, so the program `flock` does it on
 * an inherited descriptor: the lock belongs to the open file description, which this process alone keeps. The kernel drops
 * the lock when the process ends in any way, and it is seen in every container and, on NFS, on every machine.
 */
function lockDescriptor(descriptor: number): Outcome {
  const { status, signal, stderr, error } = spawnSync('flock', ['-x', '-n', '3'], {
    stdio: ['ignore', 'ignore', 'pipe', descriptor],
    encoding: 'utf8',
    cwd: '/',
    // A service manager may leave PATH unset.
    env: { PATH: `${process.env.PATH ?? ''}:/usr/bin:/bin`, LC_ALL: 'C' },
    timeout: 30_000,
    killSignal: 'SIGKILL',
  });
  if (errorCode(error) === 'ENOENT') {
    throw new SetupError(
      "The program 'flock' is not on PATH: it locks the data directory; install the package util-linux",
    );
  }
  // This does not say whether somebody has the lock.
  if (error)
    throw new SetupError(`The data directory cannot be locked: ${oneLine(error.message)}; try again`);
  if (status === 0) return 'locked';
  const words = oneLine(stderr.trim());
  // A failure without a message means that somebody else has the lock.
  if (status === 1 && words === '') return 'taken';
  return { unsupported: words || `flock ended with ${signal ?? status}` };
}

/** Whether the path still leads to the open file: it may have been removed or replaced meanwhile. */
export function isStillNamed(descriptor: number, name: string): boolean {
  const open = fstatSync(descriptor, { bigint: true });
  const named = statSync(name, { bigint: true, throwIfNoEntry: false });
  return named !== undefined && named.dev === open.dev && named.ino === open.ino;
}

/**
 * Opens and locks a file or directory.
 * @returns the descriptor that has the lock, or why there is none
 */
export function lockPath(
  name: string,
  flags: number,
): { readonly descriptor: number } | Exclude<Outcome, 'locked'> {
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
