import { readFileSync } from 'node:fs';
import { uptime } from 'node:os';
import { setImmediate } from 'node:timers/promises';

/** Milliseconds of the monotonic clock, since some moment in the past. */
export const monotonicTime = (): number => performance.now();

/** A point in time on the monotonic clock: seconds since the machine's boot. */
interface BootTime {
  /** The id of that boot. */
  readonly boot: string;
  readonly seconds: number;
}

/** Read once: no process outlives its boot. */
let known = '';

/** Id of this boot of the machine; empty if the system has none. */
export function thisBoot(): string {
  try {
    known ||= readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
  } catch {
    // It may be readable later.
  }
  return known;
}

/** A time this many seconds from now, for another process to read; null if the system has no boot ids. */
export function bootTimeIn(clock: Clock, seconds: number): BootTime | null {
  const boot = thisBoot();
  return boot === '' ? null : { boot, seconds: clock.uptime() + seconds };
}

/** Seconds until then, negative if it has passed; null after a reboot. */
export const secondsUntil = (clock: Clock, { boot, seconds }: BootTime): number | null =>
  boot === thisBoot() ? seconds - clock.uptime() : null;

/** The clocks and timers that a server reads. Tests pass some that they move. */
export interface Clock {
  /** Milliseconds of the wall clock, which may be set. */
  now(): number;
  /** Milliseconds of the monotonic clock, since some moment in the past. */
  monotonic(): number;
  /** Seconds since the machine's boot. */
  uptime(): number;
  /** Calls something after so many milliseconds, unless the process ends before. Returns a function that cancels it. */
  after(length: number, call: () => void): () => void;
}

/** The clocks of the machine. */
export const systemClock: Clock = {
  now: Date.now,
  monotonic: monotonicTime,
  uptime,
  after: (length, call) => {
    const timer = setTimeout(call, length).unref();
    return () => clearTimeout(timer);
  },
};

/** Resolves after so many milliseconds. */
export const pause = (clock: Clock, length: number): Promise<void> =>
  new Promise((resolve) => {
    clock.after(length, resolve);
  });

/** Milliseconds of work without a pause: a server with 32 uploads under way must still answer other requests. */
const slice = 5;

/** Divides long work into slices, so that other requests are answered in between. */
export class TimeSlice {
  #began = monotonicTime();

  /** Resolves at once unless the slice is used up; otherwise after other work has run. */
  async pause(): Promise<void> {
    if (monotonicTime() - this.#began < slice) return;
    await setImmediate();
    this.#began = monotonicTime();
  }
}
