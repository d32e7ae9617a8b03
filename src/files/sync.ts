import { closeSync, constants, fsyncSync, openSync } from 'node:fs';
import { platform } from 'node:os';
import { errorCode } from './error-code.js';

/** Error codes of file systems that cannot sync a directory; they are ignored. */
const unsupported = ['EINVAL', 'ENOTSUP', 'EPERM', 'EISDIR'];

/**
 * Makes the names in a directory survive a power cut: otherwise a file that was synced may be missing afterwards.
 * @throws the system's error
 */
export function syncDirectory(directory: string): void {
  // Windows cannot open a directory.
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
