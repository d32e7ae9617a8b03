import { readFileSync } from 'node:fs';
import { uptime } from 'node:os';
import { setImmediate } from 'node:timers/promises';

/**
 * Milliseconds by a clock that nobody sets, since some moment in the past. `performance.now()` would say as much, but where
 * it is first called, Node loads all that measures performance: 3 ms of a start.
 */
export const monotonicTime = (): number => Number(process.hrtime.bigint()) / 1e6;

/** A point in time by a clock that nobody sets: seconds since a boot of the machine. */
interface BootTime {
  /** The id of that boot. */
  readonly boot: string;
  readonly seconds: number;
}

/** Read once: no process outlives its boot. */
let known = '';

/** Id of this boot of the machine; empty if the system does not tell. */
export function thisBoot(): string {
  try {
    known ||= readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
  } catch {
    // It may be readable later.
  }
  return known;
}

/** A time so many seconds from now, which another process can read; null where boots have no id. */
export function bootTimeIn(seconds: number): BootTime | null {
  const boot = thisBoot();
  return boot === '' ? null : { boot, seconds: uptime() + seconds };
}

/** Seconds until then, negative once it has passed; null after another boot. */
export const secondsUntil = ({ boot, seconds }: BootTime): number | null =>
  boot === thisBoot() ? seconds - uptime() : null;

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
