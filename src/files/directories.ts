import { type Dirent, mkdirSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { errorCode } from './errors.js';

function isDirectory(target: string): boolean {
  try {
    return statSync(target).isDirectory();
  } catch {
    return false;
  }
}

/** Creates one directory. An existing one is fine too. */
function makeOne(directory: string, mode: number): void {
  try {
    mkdirSync(directory, { mode });
  } catch (cause) {
    if (!isDirectory(directory)) throw cause;
  }
}

/**
 * Creates a directory and its missing parents. Tries each at most twice, so it always ends: Node's own `recursive` never
 * returns where a directory exists and making one in it fails with ENOENT, as in `/proc`, and its promise version reports
 * ENOENT for a full disk.
 * @throws the system's error
 */
export function makeDirectory(directory: string, mode = 0o777): void {
  try {
    makeOne(directory, mode);
  } catch (cause) {
    const parent = path.dirname(directory);
    if (errorCode(cause) !== 'ENOENT' || parent === directory) throw cause;
    if (!isDirectory(parent)) makeDirectory(parent, mode);
    // Also if somebody else created the parent in the meantime.
    makeOne(directory, mode);
  }
}

/** The names in a directory; empty if it cannot be read. */
export function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

/**
 * The files in a directory and below. Links are not followed: Node's own recursive `readdirSync` follows them since Node 22, and
 * fails where they lead in a circle.
 * @param isLeftOut whether a directory of this name is left out with all below it
 * @throws the system's error if a directory cannot be read
 */
export function filesBelow(directory: string, isLeftOut = (_name: string) => false): Dirent[] {
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    if (entry.isFile()) return [entry];
    if (!entry.isDirectory() || isLeftOut(entry.name)) return [];
    return filesBelow(path.join(directory, entry.name), isLeftOut);
  });
}

/** Directories of packages and of compiled Python: nothing in them was written by the app's author. */
export const madeDirectories: ReadonlySet<string> = new Set(['node_modules', '__pycache__']);
