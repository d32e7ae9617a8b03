import path from 'node:path';
import type { TimeSlice } from '../files/time-slice.js';
import { ArchiveError } from './errors.js';
import type { Target } from './extract-plan.js';

/** Bytes that a file system takes for a directory, and at least for a file. */
const block = 4096;

/** What targets take of the disk. */
export interface DiskCost {
  /** Every directory that is to be made: a short name may have sixty above it. */
  readonly directories: ReadonlySet<string>;
  /** How many files and directories they are. */
  readonly entries: number;
  /** Bytes that the files come to, as the archive states them. */
  readonly content: number;
  /** Bytes of the disk beside those of the files. */
  readonly overhead: number;
}

/**
 * What extracting these targets under `root` takes.
 * @throws ArchiveError where they are more than `maxEntries` files and directories
 */
export async function diskCost(
  targets: readonly Target[],
  root: string,
  maxEntries: number,
  slice: TimeSlice,
): Promise<DiskCost> {
  const directories = new Set<string>();
  let files = 0;
  let content = 0;
  let overhead = 0;
  for (const target of targets) {
    await slice.pause();
    const size = target.entry.uncompressedSize;
    let directory = target.path;
    content += size;
    if (!target.isDirectory) {
      files += 1;
      overhead += Math.max(0, block - size);
      directory = path.dirname(directory);
    }
    while (directory !== root && !directories.has(directory)) {
      directories.add(directory);
      directory = path.dirname(directory);
    }
    if (files + directories.size > maxEntries) {
      throw new ArchiveError(
        'tooMany',
        `it extracts to more files and directories than the ${maxEntries} allowed`,
      );
    }
  }
  const entries = files + directories.size;
  return { directories, entries, content, overhead: overhead + directories.size * block };
}
