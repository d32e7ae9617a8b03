import { type GarbageCollector, garbageCollector } from './garbage-collector.js';

/** Bytes that are read between two collections: few enough that the memory of the next buffers is still in the processor's cache. */
const interval = 4 * 1024 * 1024;
/** Bytes of buffers behind a collection of young objects, from which on all objects are collected. */
const leastOld = 12 * 1024 * 1024;

const bufferBytes = (): number => process.memoryUsage().arrayBuffers;

/**
 * Frees the buffers of transfers that are no longer needed; called with the bytes of each. Node allocates a new buffer for
 * each read, and V8 frees none before there are 32 MiB of them, by a collection of all objects. A collection of the young ones
 * takes 0.2 ms. Without it a result of 6 GiB takes a client 36 MiB more memory than one of 1 MiB, which is more than the bench
 * allows, and an upload of 1 GiB takes the server 2.0 s of processor time outside the system instead of 0.7 s.
 *
 * Where several transfers wait for the disk, their buffers outlive two such collections and are no young objects any more. All
 * objects are collected when there are twice as many buffers as the last time left. Without it 32 uploads at once take the
 * server 12 MiB more (bench row `memory-server-jobs`).
 */
export function readBufferCollector(): (bytes: number) => void {
  // Most transfers are shorter than the first interval.
  let collect: GarbageCollector | undefined;
  let read = 0;
  let mostOld = leastOld;
  return (bytes) => {
    read += bytes;
    if (read < interval) return;
    read = 0;
    collect ??= garbageCollector();
    collect.minor();
    if (bufferBytes() <= mostOld) return;
    collect.major();
    mostOld = Math.max(leastOld, 2 * bufferBytes());
  };
}
