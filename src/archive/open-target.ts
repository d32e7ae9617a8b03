import { randomBytes } from 'node:crypto';
import { closeSync, constants, fstatSync, mkdirSync, openSync, rmSync } from 'node:fs';
import path from 'node:path';
import { quoteName } from '../contract/index.js';
import { errorCode, isRealDirectory, replaceFile } from '../files/index.js';
import { ArchiveError } from './errors.js';
import type { Target } from './extract-plan.js';

/** Extraction and packing never follow a link to the file that they write. */
const writeFlags = constants.O_CREAT | constants.O_WRONLY | constants.O_NOFOLLOW;

/** For a file that may exist; it is not emptied. Opening a FIFO fails at once, since it has no reader. */
const extractFlags = writeFlags | constants.O_NONBLOCK;

/** For a file that must not exist yet. */
export const newFlags = writeFlags | constants.O_EXCL;

/** Creates directories below a root, each only once, without following links. */
export class MadeDirectories {
  readonly #made: Set<string>;

  /** @param root a directory that exists; the path to it may contain links, since the user chose it */
  constructor(root: string) {
    this.#made = new Set([path.join(root)]);
  }

  /** @throws the system's error; EEXIST if something other than a directory has the name */
  make(directory: string): void {
    if (this.#made.has(directory)) return;
    this.make(path.dirname(directory));
    try {
      mkdirSync(directory);
    } catch (cause) {
      // Windows and macOS have other codes for a directory that exists already.
      if (!['EEXIST', 'EPERM', 'EISDIR'].includes(errorCode(cause)) || !isRealDirectory(directory))
        throw cause;
    }
    this.#made.add(directory);
  }
}

/**
 * Error codes that mean that no file can have this name here: a directory, link or FIFO has it, it is too long, or the
 * file system does not allow its characters.
 */
const unplaceable = ['EEXIST', 'EISDIR', 'ENOTDIR', 'ENAMETOOLONG', 'ELOOP', 'ENXIO', 'EINVAL', 'EILSEQ'];

/** An entry that cannot be written, because of its name or because something else is in its place. */
export class UnplaceableEntry extends ArchiveError {
  constructor(target: Target, code: string, options?: ErrorOptions) {
    super('unplaced', `its entry ${quoteName(target.entry.path)} cannot be placed (${code})`, options);
  }
}

/** How files are written: whether those that exist stay, and the mode of new ones. */
interface NewFiles {
  readonly keepsFiles: boolean;
  readonly mode: number;
}

/**
 * A file that is being written. If an older file has its name, it replaces that file when it is complete. It is opened
 * and closed synchronously: the thread pool takes several times as long, and an archive may have thousands of files.
 */
export class OpenedTarget {
  private constructor(
    readonly descriptor: number,
    private readonly written: string,
    private readonly place: string,
  ) {}

  /** @throws the system's error if `place` is not a file, or a file that must be kept */
  static open(place: string, { keepsFiles, mode }: NewFiles): OpenedTarget {
    try {
      return new OpenedTarget(openSync(place, newFlags, mode), place, place);
    } catch (cause) {
      if (keepsFiles || errorCode(cause) !== 'EEXIST') throw cause;
    }
    // Fails here if the existing file must not be overwritten.
    const there = openSync(place, extractFlags, mode);
    try {
      if (!fstatSync(there).isFile()) throw Object.assign(new Error('no file'), { code: 'EEXIST' });
    } finally {
      closeSync(there);
    }
    const name = `.remote-app-${randomBytes(8).toString('hex')}.partial`;
    const beside = path.join(path.dirname(place), name);
    return new OpenedTarget(openSync(beside, newFlags, mode), beside, place);
  }

  /** Closes the complete file and gives it its name. */
  async keep(): Promise<void> {
    closeSync(this.descriptor);
    if (this.written !== this.place) replaceFile(this.written, this.place);
  }

  /** Closes and removes an incomplete file. An older file that it would have replaced stays. Never throws. */
  discard(): void {
    try {
      closeSync(this.descriptor);
    } catch {
      // Closed already, by `keep`.
    }
    try {
      rmSync(this.written, { force: true });
    } catch {
      // It cannot be removed; the error of the extraction is the one to report.
    }
  }
}

/**
 * Opens the file that an entry is written to, or makes its directory. Null for a directory, which needs no closing.
 * @throws UnplaceableEntry, or the system's error
 */
export function openTarget(target: Target, directories: MadeDirectories, how: NewFiles): OpenedTarget | null {
  try {
    directories.make(target.isDirectory ? target.path : path.dirname(target.path));
    return target.isDirectory ? null : OpenedTarget.open(target.path, how);
  } catch (cause) {
    const code = errorCode(cause);
    throw unplaceable.includes(code) ? new UnplaceableEntry(target, code, { cause }) : cause;
  }
}
