import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Bytes that are read between two collections. */
const interval = 8 * 1024 * 1024;

/** V8's own collector, for what was allocated lately. */
function youngCollector(): () => void {
  // The only way to it from within. What V8 compiled is only good for the same flags: this one goes again.
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options: { type: 'minor' }) => void;
  setFlagsFromString('--no-expose-gc');
  return () => collect({ type: 'minor' });
}

/**
 * Frees the buffers that a download is done with; to be told of the bytes of each. Node reads a socket into a new one
 * every time, and V8 lets 32 MiB of them gather before it looks which can go. To look at the young ones takes 0.2 ms.
 * Without it a result of 6 GiB takes 36 MiB of memory more than one of 1 MiB, which is more than the bench allows.
 */
export function readBufferCollector(): (bytes: number) => void {
  // Most downloads are shorter than the first interval.
  let collect: (() => void) | undefined;
  let read = 0;
  return (bytes) => {
    read += bytes;
    if (read < interval) return;
    read = 0;
    collect ??= youngCollector();
    collect();
  };
}
