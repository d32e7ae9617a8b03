import { closeSync, constants, fsyncSync, openSync } from 'node:fs';
import { platform } from 'node:os';
import { errorCode } from './error-code.js';

/** Codes with which a file system says that it cannot sync a directory: there is nothing more to be done then. */
const unsupported = ['EINVAL', 'ENOTSUP', 'EPERM', 'EISDIR'];

/**
 * Makes the names in a directory survive a power cut: without it a file that was synced may have no name afterwards.
 * @throws the system's error
 */
export function syncDirectory(directory: string): void {
  // Windows opens no directory.
  if (platform() === 'win32') return;
  const descriptor = openSync(directory, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    fsyncSync(descriptor);
  } catch (cause) {
    if (!unsupported.includes(errorCode(cause))) throw cause;
  } finally {
    closeSync(descriptor);
  }
}
