import { readFileSync } from 'node:fs';
import { uptime } from 'node:os';

/** A point in time by a clock that nobody sets: seconds since a boot of the machine. */
export interface BootTime {
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
