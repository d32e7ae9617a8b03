import { setImmediate } from 'node:timers/promises';
import type { Slice } from '@remote-app/volumes';

/** Milliseconds after which pending signals are handled. */
const maxBusy = 50;

/**
 * Yields slices with occasional pauses. Those of a packed file follow each other without pause, so Ctrl-C would wait for the last
 * one.
 * @throws the abort reason of the signal
 */
export async function* pausing(
  slices: AsyncIterable<Slice>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Slice, void, undefined> {
  let last = performance.now();
  for await (const slice of slices) {
    if (performance.now() - last > maxBusy) {
      await setImmediate();
      last = performance.now();
    }
    signal?.throwIfAborted();
    yield slice;
  }
}
