import { mkdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { errorCode } from './error-code.js';

function isDirectory(target: string): boolean {
  try {
    return statSync(target).isDirectory();
  } catch {
    return false;
  }
}

/** Makes one directory; one that exists already is as good. */
function makeOne(directory: string, mode: number): void {
  try {
    mkdirSync(directory, { mode });
  } catch (cause) {
    if (!isDirectory(directory)) throw cause;
  }
}

/**
 * Makes a directory and the parents that it lacks. Tries each at most twice, so it always ends: Node's own `recursive` never
 * returns where a directory exists and making one in it fails with ENOENT, as in `/proc`, and that of its promises says ENOENT
 * for a disk that is full.
 * @throws the system's error
 */
export function makeDirectory(directory: string, mode = 0o777): void {
  try {
    makeOne(directory, mode);
  } catch (cause) {
    const parent = path.dirname(directory);
    if (errorCode(cause) !== 'ENOENT' || parent === directory) throw cause;
    if (!isDirectory(parent)) makeDirectory(parent, mode);
    // Also for a parent that somebody else has made meanwhile.
    makeOne(directory, mode);
  }
}
