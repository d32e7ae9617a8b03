import { readFileSync } from 'node:fs';
import { uptime } from 'node:os';
import { setImmediate } from 'node:timers/promises';

/** Milliseconds of the monotonic clock, counted from an arbitrary moment. */
export const monotonicTime = (): number => performance.now();

/** A point in time on the monotonic clock: seconds since the machine's boot. */
interface BootTime {
  /** The id of the boot that the seconds are counted from. */
  readonly boot: string;
  readonly seconds: number;
}

/** Cached, because no process outlives its boot. */
let known = '';

/** Id of this boot of the machine; empty if the system has none. */
export function thisBoot(): string {
  try {
    known ||= readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
  } catch {
    // The file may become readable later.
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

/** The clocks and timers that a server uses. Tests replace them with ones that they can advance. */
export interface Clock {
  /** Milliseconds of the wall clock, which may be set forwards or back. */
  now(): number;
  /** Milliseconds of the monotonic clock, counted from an arbitrary moment. */
  monotonic(): number;
  /** Seconds since the machine's boot. */
  uptime(): number;
  /** Calls a function after so many milliseconds, unless the process ends first. Returns a function that cancels the call. */
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

  /** Resolves at once while the slice lasts; otherwise after other work has run. */
  async pause(): Promise<void> {
    if (monotonicTime() - this.#began < slice) return;
    await setImmediate();
    this.#began = monotonicTime();
  }
}
