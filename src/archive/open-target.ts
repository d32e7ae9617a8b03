import { constants, mkdirSync, openSync } from 'node:fs';
import path from 'node:path';
import { quoteName } from '../contract/index.js';
import { errorCode, isRealDirectory } from '../files/index.js';
import { ArchiveError } from './errors.js';
import type { Target } from './extract-plan.js';

/** Flags for opening files that extraction and packing write: only new files, and never through a link. */
export const newFlags = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_NOFOLLOW;

/** Creates directories below a root, each once, without following links. */
export class MadeDirectories {
  readonly #made: Set<string>;

  /** @param root an existing directory; the path to it may contain links, since the user chose it */
  constructor(root: string) {
    this.#made = new Set([path.join(root)]);
  }

  /**
   * Creates a directory and its missing parents. @throws the system's error; EEXIST if something other than a directory has the
   * name
   */
  make(directory: string): void {
    if (this.#made.has(directory)) return;
    this.make(path.dirname(directory));
    try {
      mkdirSync(directory);
    } catch (cause) {
      // Windows and macOS report an existing directory with other codes.
      if (!['EEXIST', 'EPERM', 'EISDIR'].includes(errorCode(cause)) || !isRealDirectory(directory))
        throw cause;
    }
    this.#made.add(directory);
  }
}

/**
 * Error codes for a name that no file can have here: it is taken, it is too long, or the file system does not allow its
 * characters.
 */
const unplaceable = ['EEXIST', 'EISDIR', 'ENOTDIR', 'ENAMETOOLONG', 'ELOOP', 'EINVAL', 'EILSEQ'];

/** An entry that cannot be written, because of its name or because something else has that name. */
export class UnplaceableEntry extends ArchiveError {
  constructor(target: Target, code: string, options?: ErrorOptions) {
    super('unplaced', `its entry ${quoteName(target.entry.path)} cannot be placed (${code})`, options);
  }
}

/**
 * Opens the new file that an entry is written to, or creates its directory. The file is opened synchronously, because the thread
 * pool takes several times as long and an archive may have thousands of files.
 * @returns a descriptor; null for a directory
 * @throws UnplaceableEntry, or the system's error
 */
export function openTarget(target: Target, directories: MadeDirectories, mode: number): number | null {
  try {
    directories.make(target.isDirectory ? target.path : path.dirname(target.path));
    return target.isDirectory ? null : openSync(target.path, newFlags, mode);
  } catch (cause) {
    const code = errorCode(cause);
    throw unplaceable.includes(code) ? new UnplaceableEntry(target, code, { cause }) : cause;
  }
}
