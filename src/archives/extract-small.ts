import { setImmediate } from 'node:timers/promises';
import type { BatchThread } from './batch-thread.js';
import { BatchWriter } from './batch-writer.js';
import { type Batch, batchesOf } from './entry-batches.js';
import type { Target } from './extract-plan.js';

export interface SmallFiles {
  /** An open descriptor of the archive. */
  readonly archive: number;
  readonly targets: readonly Target[];
  /** Helps, where it is given. */
  readonly thread: BatchThread | null;
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
  thread,
  signal,
  onFile,
}: SmallFiles): Promise<Target[]> {
  if (targets.length === 0) return [];
  const left: Target[] = [];
  const batches = batchesOf(targets);
  const writeEach = async (write: (batch: Batch) => Promise<number[] | null>) => {
    // Not `for of`, which would end the batches for the other thread as well.
    for (let next = batches.next(); !next.done; next = batches.next()) {
      signal?.throwIfAborted();
      const missing = await write(next.value.batch);
      const isMissing = new Set(missing ?? next.value.targets.keys());
      for (const [index, target] of next.value.targets.entries()) {
        if (isMissing.has(index)) left.push(target);
        else onFile(target);
      }
      if (!missing) break;
    }
  };
  const writer = new BatchWriter(archive);
  const here = writeEach(async (batch) => {
    await setImmediate();
    return writer.write(batch);
  });
  // Two, so that the other thread has its next batch when it is done with one, while this one is still at its own.
  const beside = thread ? [1, 2].map(() => writeEach((batch) => thread.write(batch))) : [];
  // All have ended before the archive is closed, whatever becomes of one of them.
  const ends = await Promise.allSettled([here, ...beside]);
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
  return left;
}
