import { closeSync, constants, fsync, fsyncSync, openSync } from 'node:fs';
import { platform } from 'node:os';
import { promisify } from 'node:util';
import { errorCode } from './error-code.js';

/** Windows cannot open a directory. */
const canSync = (): boolean => platform() !== 'win32';

const flags = constants.O_RDONLY | constants.O_DIRECTORY;

/** Ignores the errors of file systems that cannot sync a directory. */
function ignoreUnsupported(cause: unknown): void {
  if (!['EINVAL', 'ENOTSUP', 'EPERM', 'EISDIR'].includes(errorCode(cause))) throw cause;
}

const inThread = promisify(fsync);

/**
 * Makes what was written to an open file survive a power cut, without blocking the event loop meanwhile.
 * @throws the system's error
 */
export const syncDescriptor = (descriptor: number): Promise<void> => inThread(descriptor);

/**
 * Makes what was written to a file survive a power cut. Only the sync itself is done in a thread, because a job's start
 * waits longer for a thread than an open or a close takes.
 * @param openFlags how it is opened
 * @throws the system's error
 */
export async function syncFile(file: string, openFlags: number): Promise<void> {
  const descriptor = openSync(file, openFlags);
  try {
    await syncDescriptor(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Makes the names in a directory survive a power cut: otherwise a file that was synced may be missing afterwards.
 * @throws the system's error
 */
export async function syncDirectory(directory: string): Promise<void> {
  if (!canSync()) return;
  await syncFile(directory, flags).catch(ignoreUnsupported);
}

/** `syncDirectory`, which blocks the event loop meanwhile. */
export function syncDirectorySync(directory: string): void {
  if (!canSync()) return;
  const descriptor = openSync(directory, flags);
  try {
    fsyncSync(descriptor);
  } catch (cause) {
    ignoreUnsupported(cause);
  } finally {
    closeSync(descriptor);
  }
}
