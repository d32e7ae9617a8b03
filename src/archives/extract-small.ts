import { setImmediate } from 'node:timers/promises';
import { BatchWriter } from './batch-writer.js';
import { batchesOf } from './entry-batches.js';
import type { Target } from './extract-plan.js';
import type { MadeDirectories } from './made-directories.js';

export interface SmallFiles {
  /** An open descriptor of the archive. */
  readonly archive: number;
  readonly targets: readonly Target[];
  readonly directories: MadeDirectories;
  readonly signal: AbortSignal | undefined;
  readonly onFile: (target: Target) => void;
}

/**
 * Writes small files, batch by batch. Returns those that are not written, for a fault that is still to be found.
 * Between two batches the event loop goes on: a server extracts beside its other work.
 */
export async function writeSmall({
  archive,
  targets,
  directories,
  signal,
  onFile,
}: SmallFiles): Promise<Target[]> {
  if (targets.length === 0) return [];
  const writer = new BatchWriter(archive, directories);
  const left: Target[] = [];
  for (const batch of batchesOf(targets)) {
    signal?.throwIfAborted();
    const missing = new Set(writer.write(batch));
    for (const target of batch.targets) {
      if (missing.has(target)) left.push(target);
      else onFile(target);
    }
    await setImmediate();
  }
  return left;
}
