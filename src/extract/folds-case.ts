import { closeSync, lstatSync, openSync, rmSync } from 'node:fs';
import path from 'node:path';

/** What two names share that some file systems take for one. */
export const foldedName = (name: string): string => name.normalize('NFC').toLowerCase();

/**
 * Whether `A.txt` and `a.txt` are one file in a directory: on FAT they are, whatever the system. It is tried with a
 * file of no bytes.
 */
export function foldsCase(directory: string): boolean {
  const probe = path.join(directory, `.remote-app-Case-${process.pid}`);
  try {
    closeSync(openSync(probe, 'wx', 0o600));
  } catch {
    // Nothing can be written there, which whoever extracts is told.
    return false;
  }
  try {
    return lstatSync(probe.replace('Case', 'cASE'), { throwIfNoEntry: false }) !== undefined;
  } finally {
    rmSync(probe, { force: true });
  }
}
