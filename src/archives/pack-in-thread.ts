import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { Worker } from 'node:worker_threads';
import type { Packed } from './pack.js';

/**
 * Packs a directory on a thread of its own (see `packDirectory`). Aborting ends the thread; no partial archive
 * stays behind.
 */
export async function packInThread(source: string, archive: string, signal: AbortSignal): Promise<Packed> {
  signal.throwIfAborted();
  const worker = new Worker(new URL('./pack-worker.js', import.meta.url), {
    workerData: { source, archive },
  });
  try {
    const [packed] = (await once(worker, 'message', { signal })) as [Packed];
    return packed;
  } finally {
    await worker.terminate();
    await rm(`${archive}.partial`, { force: true });
  }
}
