import { randomBytes } from 'node:crypto';
import { type FileHandle, open, rm } from 'node:fs/promises';
import path from 'node:path';
import { quoteName } from '../contract/quote.js';
import { errorCode } from '../files/error-code.js';
import { extractFlags, extractMode, newFlags } from '../files/open-flags.js';
import { replaceFile } from '../files/replace-file.js';
import { ArchiveError } from './errors.js';
import type { Target } from './extract-plan.js';
import type { MadeDirectories } from './made-directories.js';

/**
 * Error codes for a name that no file can have there: a directory, link or FIFO has it, it is too long, or the file system
 * does not allow its characters.
 */
const unplaceable = ['EEXIST', 'EISDIR', 'ENOTDIR', 'ENAMETOOLONG', 'ELOOP', 'ENXIO', 'EINVAL', 'EILSEQ'];

/** An entry that cannot be written to its place, because of its name or of what lies there. */
export class UnplaceableEntry extends ArchiveError {
  constructor(target: Target, code: string, options?: ErrorOptions) {
    super('unplaced', `its entry ${quoteName(target.entry.path)} cannot be placed (${code})`, options);
  }
}

/** A file that is being written. If an older file has its name, it replaces that file when it is complete. */
export class OpenedTarget {
  private constructor(
    readonly file: FileHandle,
    private readonly written: string,
    private readonly place: string,
  ) {}

  /** @throws the system's error where something else than a file lies at `place`, or a file that is to be kept */
  static async open(place: string, keepsFiles: boolean): Promise<OpenedTarget> {
    try {
      return new OpenedTarget(await open(place, newFlags, extractMode), place, place);
    } catch (cause) {
      if (keepsFiles || errorCode(cause) !== 'EEXIST') throw cause;
    }
    // Fails here if the existing file must not be overwritten.
    await using there = await open(place, extractFlags, extractMode);
    if (!(await there.stat()).isFile()) throw Object.assign(new Error('no file'), { code: 'EEXIST' });
    const name = `.remote-app-${randomBytes(8).toString('hex')}.partial`;
    const beside = path.join(path.dirname(place), name);
    return new OpenedTarget(await open(beside, newFlags, extractMode), beside, place);
  }

  /** Closes the file, which is complete, and gives it its name. */
  async keep(): Promise<void> {
    await this.file.close();
    if (this.written !== this.place) await replaceFile(this.written, this.place);
  }

  /** Closes and removes an incomplete file. An older file that it would have replaced stays. Never rejects. */
  async discard(): Promise<void> {
    await this.file.close().catch(() => {});
    await rm(this.written, { force: true }).catch(() => {});
  }
}

/**
 * Opens the file that an entry is written to, or makes its directory. Null for a directory, which needs no closing.
 * @throws UnplaceableEntry, or the system's error
 */
export async function openTarget(
  target: Target,
  directories: MadeDirectories,
  keepsFiles: boolean,
): Promise<OpenedTarget | null> {
  try {
    directories.make(target.isDirectory ? target.path : path.dirname(target.path));
    return target.isDirectory ? null : await OpenedTarget.open(target.path, keepsFiles);
  } catch (cause) {
    const code = errorCode(cause);
    throw unplaceable.includes(code) ? new UnplaceableEntry(target, code, { cause }) : cause;
  }
}
