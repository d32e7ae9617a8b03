import { setImmediate } from 'node:timers/promises';

/** Milliseconds of work without a pause. A server may have 32 uploads under way, and is to answer others meanwhile. */
const slice = 5;

/** Divides long work into slices, between which other requests are answered. */
export class TimeSlice {
  #began = performance.now();

  /** Resolves at once while the slice lasts. */
  async pause(): Promise<void> {
    if (performance.now() - this.#began < slice) return;
    await setImmediate();
    this.#began = performance.now();
  }
}
