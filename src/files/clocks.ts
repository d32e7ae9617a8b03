import { readFileSync } from 'node:fs';
import { uptime } from 'node:os';
import { setImmediate } from 'node:timers/promises';

/**
 * Milliseconds of the monotonic clock, since some moment in the past. `performance.now()` would do, but its first call
 * makes Node load the whole performance module: 3 ms of the start.
 */
export const monotonicTime = (): number => Number(process.hrtime.bigint()) / 1e6;

/** A point in time on the monotonic clock: seconds since the machine's boot. */
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

/** A time this many seconds from now, for another process to read; null if the system has no boot ids. */
export function bootTimeIn(seconds: number): BootTime | null {
  const boot = thisBoot();
  return boot === '' ? null : { boot, seconds: uptime() + seconds };
}

/** Seconds until then, negative if it has passed; null after a reboot. */
export const secondsUntil = ({ boot, seconds }: BootTime): number | null =>
  boot === thisBoot() ? seconds - uptime() : null;

/** Milliseconds of work without a pause: a server with 32 uploads under way must still answer other requests. */
const slice = 5;

/** Divides long work into slices, so that other requests are answered in between. */
export class TimeSlice {
  #began = monotonicTime();

  /**
   * Checked before `pause` in loops over all names of an archive, where an `await` for each would take as long as the
   * work.
   */
  get isOver(): boolean {
    return monotonicTime() - this.#began >= slice;
  }

  /** Resolves at once unless the slice is used up; otherwise after other work has run. */
  async pause(): Promise<void> {
    if (!this.isOver) return;
    await setImmediate();
    this.#began = monotonicTime();
  }
}
