import { closeSync, constants, fsync, fsyncSync, openSync } from 'node:fs';
import { platform } from 'node:os';
import { promisify } from 'node:util';
import { errorCode } from './error-code.js';

/** Windows cannot open a directory. */
const canSync = (): boolean => platform() !== 'win32';

const directoryFlags = constants.O_RDONLY | constants.O_DIRECTORY;
/** A link that a job gave the name of the file is not followed, and a FIFO not waited for. */
const fileFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

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

/** Only the sync itself is done in a thread, because a job's start waits longer for a thread than an open or a close takes. */
async function openAndSync(name: string, flags: number): Promise<void> {
  const descriptor = openSync(name, flags);
  try {
    await syncDescriptor(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Makes what was written to a file survive a power cut.
 * @throws the system's error
 */
export const syncFile = (file: string): Promise<void> => openAndSync(file, fileFlags);

/**
 * Makes the names in a directory survive a power cut: otherwise a file that was synced may be missing afterwards.
 * @throws the system's error
 */
export async function syncDirectory(directory: string): Promise<void> {
  if (!canSync()) return;
  await openAndSync(directory, directoryFlags).catch(ignoreUnsupported);
}

/** `syncDirectory`, which blocks the event loop meanwhile. */
export function syncDirectorySync(directory: string): void {
  if (!canSync()) return;
  const descriptor = openSync(directory, directoryFlags);
  try {
    fsyncSync(descriptor);
  } catch (cause) {
    ignoreUnsupported(cause);
  } finally {
    closeSync(descriptor);
  }
}
