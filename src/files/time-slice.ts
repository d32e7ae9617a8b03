import { setImmediate } from 'node:timers/promises';
import { monotonicTime } from './monotonic-time.js';

/** Milliseconds of work without a pause: a server with 32 uploads under way must still answer other requests. */
const slice = 5;

/** Divides long work into slices, between which other requests are answered. */
export class TimeSlice {
  #began = monotonicTime();

  /** Asked before `pause` in loops over all names of an archive, where an `await` for each takes as long as the work. */
  get isOver(): boolean {
    return monotonicTime() - this.#began >= slice;
  }

  /** Resolves at once unless the slice is over; then after other work has run. */
  async pause(): Promise<void> {
    if (!this.isOver) return;
    await setImmediate();
    this.#began = monotonicTime();
  }
}
