import { setImmediate } from 'node:timers/promises';

/** Milliseconds of work without a pause. A server may have 32 uploads under way, and is to answer others meanwhile. */
const slice = 5;

/** Divides long work into slices, between which other requests are answered. */
export class TimeSlice {
  #began = performance.now();

  get isOver(): boolean {
    return performance.now() - this.#began >= slice;
  }

  /** Resolves at once while the slice lasts. */
  async pause(): Promise<void> {
    if (!this.isOver) return;
    await setImmediate();
    this.#began = performance.now();
  }
}
