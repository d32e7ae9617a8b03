import { setImmediate } from 'node:timers/promises';
import type { Slice } from '@remote-app/volumes';

/** Milliseconds after which a signal to the process is looked for. */
const maxBusy = 50;

/**
 * Slices, with a pause now and then: those of a packed file follow each other without one, and Ctrl-C would wait for the last.
 * @throws the reason of an interruption
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
