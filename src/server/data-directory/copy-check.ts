import { closeSync, constants, statSync } from 'node:fs';
import path from 'node:path';
import { readJsonFile, writeJsonFile } from '../../files/atomic-json.js';
import { lockPath } from '../../files/file-lock.js';
import { SetupError } from '../setup-error.js';

/** Where a data directory is. A copy has the path and the inode of the directory that it was made of. */
interface Place {
  readonly path: string;
  readonly inode: string;
}

const inodeOf = (directory: string): string | undefined =>
  statSync(directory, { bigint: true, throwIfNoEntry: false })?.ino.toString();

/** Where the directory was at its last start; null if that is not known. */
function readPlace(file: string): Place | null {
  try {
    const { path: place, inode } = Object(readJsonFile(file)) as Partial<Record<keyof Place, unknown>>;
    return typeof place === 'string' && typeof inode === 'string' ? { path: place, inode } : null;
  } catch {
    return null;
  }
}

/** Whether a server works on a directory. */
function isServed(directory: string): boolean {
  try {
    const outcome = lockPath(directory, constants.O_RDONLY | constants.O_DIRECTORY);
    if (typeof outcome === 'object' && 'descriptor' in outcome) closeSync(outcome.descriptor);
    return outcome === 'taken';
  } catch {
    return false;
  }
}

/**
 * Refuses a copy of a data directory on which a server of this machine works: the jobs in the copy have the ids and the
 * processes of the original's, which would be ended with them. Notes in `serve.place` where the directory is.
 * @param directory its real path
 * @throws SetupError
 */
export function refuseCopy(directory: string): void {
  const file = path.join(directory, 'serve.place');
  const own = { path: directory, inode: inodeOf(directory) ?? '' };
  const known = readPlace(file);
  if (known?.path === own.path && known.inode === own.inode) return;
  const isCopy = known !== null && known.inode !== own.inode && inodeOf(known.path) === known.inode;
  if (isCopy && isServed(known.path)) {
    throw new SetupError(
      `The data directory ${directory} is a copy of ${known.path}, on which another server works: ` +
        'both would take the same jobs for theirs; stop that server first, when its jobs have ended',
    );
  }
  try {
    writeJsonFile(file, own, { isKept: false });
  } catch {
    // A full disk: the note of the next start will do.
  }
}
