import path from 'node:path';
import type { TimeSlice } from '../files/time-slice.js';
import { ArchiveError } from './errors.js';
import type { Target } from './extract-plan.js';

/** Bytes that a directory takes on the disk, and the least that a file takes. */
const block = 4096;

/** The room that targets need on the disk. */
export interface DiskCost {
  /** Every directory that must be made. One short entry name may need sixty. */
  readonly directories: ReadonlySet<string>;
  /** Number of files and directories. */
  readonly entries: number;
  /** Bytes of the files, as the archive states them. */
  readonly content: number;
  /** Bytes needed in addition: directories, and blocks that are not filled. */
  readonly overhead: number;
}

/**
 * The room that extracting these targets under `root` needs.
 * @throws ArchiveError for more than `maxEntries` files and directories
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
    if (slice.isOver) await slice.pause();
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
