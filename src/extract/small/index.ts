import { setImmediate } from 'node:timers/promises';
import type { Target } from '../extract-plan.js';
import type { MadeDirectories } from '../made-directories.js';
import { BatchWriter } from './batch-writer.js';
import { batchesOf, isSmall } from './batches.js';

export interface SmallFilesOptions {
  /** An open descriptor of the archive. */
  readonly archive: number;
  /** Most bytes that one file may come to. */
  readonly maxFileBytes: number;
  readonly directories: MadeDirectories;
  /** Whether files that exist stay as they are; their entries are among those that are returned. */
  readonly keepsFiles: boolean;
  readonly signal: AbortSignal | undefined;
  /** Called for each file that was written. */
  readonly onFile: (target: Target) => void;
}

/**
 * Extracts the small files among the targets in batches, without a promise or a stream for each file (bench row
 * `extract-small`). A file that a batch cannot write, for whatever reason, is not an error here: it is returned with the
 * large files and directories, to be extracted one by one, which finds out what is wrong with it.
 * @returns the targets that are not extracted yet, the files that failed first
 */
export async function extractSmallFiles(
  targets: readonly Target[],
  { archive, maxFileBytes, directories, keepsFiles, signal, onFile }: SmallFilesOptions,
): Promise<Target[]> {
  const small = new Set(targets.filter((target) => isSmall(target, maxFileBytes)));
  if (small.size === 0) return [...targets];
  const writer = new BatchWriter(archive, directories, keepsFiles);
  const failed: Target[] = [];
  for (const batch of batchesOf([...small])) {
    signal?.throwIfAborted();
    const missing = new Set(writer.write(batch));
    for (const target of batch.targets) {
      if (missing.has(target)) failed.push(target);
      else onFile(target);
    }
    // Lets a server do its other work between two batches.
    await setImmediate();
  }
  return [...failed, ...targets.filter((target) => !small.has(target))];
}
