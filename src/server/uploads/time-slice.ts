import { setImmediate } from 'node:timers/promises';

/** Milliseconds that one upload may work without a pause. There may be 32 of them, and others are to be answered. */
const slice = 5;

/**
 * Divides long work into slices, between which other requests are answered. A form of many small parts is work for
 * seconds: it comes in pieces that each hold a thousand parts.
 */
export class TimeSlice {
  #began = performance.now();

  /** Resolves at once while the slice lasts. */
  async pause(): Promise<void> {
    if (performance.now() - this.#began < slice) return;
    await setImmediate();
    this.#began = performance.now();
  }
}
