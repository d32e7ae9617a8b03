import { closeSync, lstatSync, openSync, rmSync } from 'node:fs';
import path from 'node:path';

/** A key that is equal for names which some file systems treat as the same. */
export const foldedName = (name: string): string => name.normalize('NFC').toLowerCase();

/**
 * Whether `A.txt` and `a.txt` are the same file in a directory, as on FAT under any system. Tried with an empty file.
 */
export function foldsCase(directory: string): boolean {
  const probe = path.join(directory, `.remote-app-Case-${process.pid}`);
  try {
    closeSync(openSync(probe, 'wx', 0o600));
  } catch {
    // Nothing can be written there: the extraction itself reports that.
    return false;
  }
  try {
    return lstatSync(probe.replace('Case', 'cASE'), { throwIfNoEntry: false }) !== undefined;
  } finally {
    rmSync(probe, { force: true });
  }
}
