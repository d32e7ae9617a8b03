import { closeSync, fstatSync, ftruncateSync, openSync, readSync, unlinkSync, writeSync } from 'node:fs';
import path from 'node:path';
import { errorCode } from '../../files/error-code.js';
import { extractFlags, extractMode, newFlags } from '../../files/open-flags.js';
import type { Target } from '../extract-plan.js';
import type { MadeDirectories } from '../made-directories.js';
import { type Batch, batchSpan } from './batches.js';
import { batchContents } from './inflate-batch.js';

/**
 * Opens an existing file and empties it. A file that has hard links is unlinked and made anew, so that its other names keep
 * their content. Null if it is not a regular file.
 */
function openEmptied(file: string): number | null {
  const there = openSync(file, extractFlags, extractMode);
  const stats = fstatSync(there);
  if (stats.isFile() && stats.nlink <= 1) {
    // Cannot fail: it is a regular file that is open for writing.
    if (stats.size > 0) ftruncateSync(there);
    return there;
  }
  closeSync(there);
  if (!stats.isFile()) return null;
  unlinkSync(file);
  return openSync(file, newFlags, extractMode);
}

/**
 * Opens an empty file. Tries to make a new one first, which is the usual case and needs one call.
 * @returns null for one that must not be written
 */
function openEmpty(file: string, keepsFiles: boolean): number | null {
  try {
    return openSync(file, newFlags, extractMode);
  } catch (cause) {
    if (errorCode(cause) !== 'EEXIST') throw cause;
    if (keepsFiles) return null;
    return openEmptied(file);
  }
}

/**
 * Writes small files with synchronous calls: a promise or a stream for each would take ten times as long. Never throws;
 * returns the entries that it could not write.
 */
export class BatchWriter {
  readonly #buffer = Buffer.allocUnsafe(batchSpan);

  /** @param archive an open descriptor; it stays open */
  constructor(
    readonly archive: number,
    private readonly directories: MadeDirectories,
    private readonly keepsFiles: boolean,
  ) {}

  /** Writes the files of a batch. Returns those that it could not write. */
  write(batch: Batch): Target[] {
    const contents = batchContents(batch, this.#read(batch));
    return batch.targets.filter((target, index) => {
      const content = contents?.[index];
      return !content || !this.#place(target.path, content);
    });
  }

  #read({ start, end }: Batch): Buffer {
    const length = end - start;
    let filled = 0;
    try {
      while (filled < length) {
        const count = readSync(this.archive, this.#buffer, filled, length - filled, start + filled);
        if (count === 0) break;
        filled += count;
      }
    } catch {
      filled = 0;
    }
    return this.#buffer.subarray(0, filled);
  }

  #place(file: string, content: Buffer): boolean {
    try {
      this.directories.make(path.dirname(file));
      const target = openEmpty(file, this.keepsFiles);
      if (target === null) return false;
      const isWritten = writeAll(target, content);
      // Made here, so it must not be taken for one that was there when the entry is tried again.
      if (!isWritten && this.keepsFiles) unlinkSync(file);
      return isWritten;
    } catch {
      return false;
    }
  }
}

/** Writes a file and closes it. */
function writeAll(target: number, content: Buffer): boolean {
  try {
    for (let done = 0; done < content.length; ) done += writeSync(target, content, done);
    return true;
  } catch {
    return false;
  } finally {
    closeSync(target);
  }
}
