import { closeSync, constants, realpathSync, statSync } from 'node:fs';
import path from 'node:path';
import { errorCode } from './errors.js';
import { lockPath } from './file-lock.js';
import { writeJsonFile } from './json-file.js';
import { syncDirectorySync } from './sync.js';

/** Seconds to wait for another command that changes the same file. */
const patience = 10;
/** How often to begin again if another command has made the file meanwhile. */
const attempts = 5;

/** A path without links: the file that they lead to is replaced, and not the link. */
function realPath(file: string): string {
  try {
    return realpathSync(file);
  } catch (cause) {
    if (errorCode(cause) !== 'ENOENT') throw cause;
    return path.join(realpathSync(path.dirname(path.resolve(file))), path.basename(file));
  }
}

/** Locks a file that is there. @returns a function that ends that; null if there is no file */
function lock(file: string): (() => void) | 'taken' | null {
  try {
    const outcome = lockPath(file, constants.O_RDONLY | constants.O_NONBLOCK, patience);
    if (outcome === 'taken') return outcome;
    // Where nothing can be locked, one person at a time changes the file.
    return typeof outcome === 'object' && 'descriptor' in outcome
      ? () => closeSync(outcome.descriptor)
      : () => {};
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') return null;
    throw cause;
  }
}

export interface EditOptions {
  /** Whether owner and mode of a file that is there stay; it belongs to this user alone otherwise. */
  readonly keepsAccess: boolean;
}

/** What became of a change. `taken`: another command has the file's lock; `replaced`: others have made the file each time. */
export type Edited = 'done' | 'taken' | 'replaced';

/**
 * Changes a JSON file, which is made where there is none. Who reads it meanwhile finds the old content or the new one; of two
 * commands that change it at the same time, one waits.
 * @param change gives what the file is to hold; it is handed the file's path, or null if there is no file. May throw
 * @throws the system's error, or what `change` throws
 */
export function editJsonFile(
  given: string,
  change: (file: string | null) => unknown,
  { keepsAccess }: EditOptions,
): Edited {
  const file = realPath(given);
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    const unlock = lock(file);
    if (unlock === 'taken') return 'taken';
    try {
      const after = change(unlock && file);
      const access = keepsAccess && unlock ? { like: statSync(file) } : {};
      writeJsonFile(file, after, unlock ? access : { like: 'new' });
      syncDirectorySync(path.dirname(file));
      return 'done';
    } catch (cause) {
      // Another command has made the file at the same time.
      if (unlock || errorCode(cause) !== 'EEXIST') throw cause;
    } finally {
      unlock?.();
    }
  }
  return 'replaced';
}
