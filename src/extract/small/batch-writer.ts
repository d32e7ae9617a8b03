import { closeSync, fstatSync, ftruncateSync, openSync, readSync, unlinkSync, writeSync } from 'node:fs';
import path from 'node:path';
import { errorCode } from '../../files/error-code.js';
import { extractFlags, extractMode, newFlags } from '../../files/open-flags.js';
import type { Target } from '../extract-plan.js';
import type { MadeDirectories } from '../made-directories.js';
import { type Batch, batchSpan } from './batches.js';
import { batchContents } from './inflate-batch.js';

/**
 * Opens a file that is there, emptied. One that has another name as well loses this one, and keeps its content. Null where
 * something else than a file lies there.
 */
function openEmptied(file: string): number | null {
  const there = openSync(file, extractFlags, extractMode);
  const stats = fstatSync(there);
  if (stats.isFile() && stats.nlink <= 1) {
    // It was opened to be written, and is a file: to empty it does not fail.
    if (stats.size > 0) ftruncateSync(there);
    return there;
  }
  closeSync(there);
  if (!stats.isFile()) return null;
  unlinkSync(file);
  return openSync(file, newFlags, extractMode);
}

/** Opens a file, which most often is a new one. */
function openEmpty(file: string): number | null {
  try {
    return openSync(file, newFlags, extractMode);
  } catch (cause) {
    if (errorCode(cause) !== 'EEXIST') throw cause;
    return openEmptied(file);
  }
}

/**
 * Writes small files without a promise or a stream for each, which cost ten times what the file does. It knows only
 * success: what it cannot do, for whatever reason, is left to who can tell the reason.
 */
export class BatchWriter {
  readonly #buffer = Buffer.allocUnsafe(batchSpan);

  /** @param archive an open descriptor; it stays open */
  constructor(
    readonly archive: number,
    private readonly directories: MadeDirectories,
  ) {}

  /** Writes a batch's files. Returns those that it has not written. */
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
      const target = openEmpty(file);
      if (target === null) return false;
      try {
        for (let done = 0; done < content.length; ) done += writeSync(target, content, done);
      } finally {
        closeSync(target);
      }
      return true;
    } catch {
      return false;
    }
  }
}
