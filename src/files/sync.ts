import { closeSync, constants, fsyncSync, openSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { platform } from 'node:os';
import { errorCode } from './error-code.js';

/** Windows cannot open a directory. */
const canSync = (): boolean => platform() !== 'win32';

const flags = constants.O_RDONLY | constants.O_DIRECTORY;

/** Ignores the errors of file systems that cannot sync a directory. */
function ignoreUnsupported(cause: unknown): void {
  if (!['EINVAL', 'ENOTSUP', 'EPERM', 'EISDIR'].includes(errorCode(cause))) throw cause;
}

/**
 * Makes the names in a directory survive a power cut: otherwise a file that was synced may be missing afterwards.
 * @throws the system's error
 */
export async function syncDirectory(directory: string): Promise<void> {
  if (!canSync()) return;
  await using handle = await open(directory, flags);
  await handle.sync().catch(ignoreUnsupported);
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
