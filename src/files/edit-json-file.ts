import { closeSync, constants, realpathSync, statSync } from 'node:fs';
import path from 'node:path';
import { errorCode } from './errors.js';
import { lockPath } from './file-lock.js';
import { writeJsonFile } from './json-file.js';
import { syncDirectorySync } from './sync.js';

/** Seconds to wait for another command that changes the same file. */
const patience = 10;
/** How often to start again if another command created the file in the meantime. */
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

/** Locks an existing file. @returns a function that unlocks it; null if there is no file */
function lock(file: string): (() => void) | 'taken' | null {
  try {
    const outcome = lockPath(file, constants.O_RDONLY | constants.O_NONBLOCK, patience);
    if (outcome === 'taken') return outcome;
    // Without locks, it is up to people not to change the file at the same time.
    return typeof outcome === 'object' && 'descriptor' in outcome
      ? () => closeSync(outcome.descriptor)
      : () => {};
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') return null;
    throw cause;
  }
}

export interface EditOptions {
  /** Whether an existing file keeps its owner and mode; otherwise it belongs to this user alone. */
  readonly keepsAccess: boolean;
}

/**
 * The outcome of a change. `taken`: another command has the file's lock; `replaced`: others created the file each time.
 */
export type Edited = 'done' | 'taken' | 'replaced';

/**
 * Changes a JSON file, and creates it if it does not exist. Readers find either the old content or the new; if two
 * commands change it at the same time, one waits.
 * @param change returns the new content; it is given the file's path, or null if there is no file. May throw
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
      // Another command created the file at the same time.
      if (unlock || errorCode(cause) !== 'EEXIST') throw cause;
    } finally {
      unlock?.();
    }
  }
  return 'replaced';
}
