/**
 * Times and durations in readable form; `--json` prints them as the server sent them. Pure functions: the caller passes the
 * current time.
 */

const minute = 60;
const hour = 60 * minute;
const day = 24 * hour;

const units = [
  [day, 'day'],
  [hour, 'h'],
  [minute, 'min'],
  [1, 's'],
] as const;

const amount = (count: number, unit: string): string =>
  `${count} ${unit === 'day' && count !== 1 ? 'days' : unit}`;

/**
 * Formats seconds in the largest unit, such as `3 min`, and adds the next smaller one if that matters: `2 h 5 min`, `1 day 4 h`.
 * @param fine also shows seconds after minutes, as for a countdown: `5 min 12 s`
 */
export function formatDuration(seconds: number, fine = false): string {
  // Rounded first, so that there is never a 60th second or minute.
  const step = seconds >= day ? hour : seconds >= hour || (seconds >= minute && !fine) ? minute : 1;
  let left = Math.max(0, Math.round(seconds / step) * step);
  const parts: string[] = [];
  for (const [size, unit] of units) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count > 0) parts.push(amount(count, unit));
  }
  return parts.slice(0, 2).join(' ') || amount(0, 's');
}

/** Formats seconds in the largest unit only. */
function roughly(seconds: number): string {
  // A small tolerance, because a time that was 7 days a moment ago would otherwise become 6 days.
  const rounded = (size: number) => Math.floor(seconds / size + 0.02);
  const [size, unit] = units.find(([size]) => rounded(size) >= 1) ?? [1, 's'];
  return amount(rounded(size), unit);
}

/**
 * The distance of a time from now: `2 min ago`, `in 6 days`. A small difference is `just now`, because the clocks of two machines
 * differ slightly.
 */
export function formatDistance(time: number, now: number): string {
  const seconds = Math.round((time - now) / 1000);
  if (Math.abs(seconds) < 5) return 'just now';
  return seconds > 0 ? `in ${roughly(seconds)}` : `${roughly(-seconds)} ago`;
}

const two = (value: number): string => String(value).padStart(2, '0');

/** A time in this machine's time zone, to the minute: `2026-03-01 14:05`. */
function formatLocal(time: number): string {
  const date = new Date(time);
  const [month, dayOfMonth] = [date.getMonth() + 1, date.getDate()].map(two);
  return `${date.getFullYear()}-${month}-${dayOfMonth} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

/**
 * Formats a time from a server in this time zone, with more about it in brackets. A text that is not a time is returned
 * unchanged.
 */
export function formatTime(iso: string | null, besides: (time: number) => string): string | null {
  const at = readTime(iso);
  return at === null ? iso : `${formatLocal(at)} (${besides(at)})`;
}

/** The distance of a time from a server to now. A text that is not a time is returned unchanged. */
export function distanceTo(iso: string | null, now: number): string {
  const at = readTime(iso);
  return at === null ? (iso ?? '') : formatDistance(at, now);
}

/** A time sent by a server, in milliseconds; null if it is missing or invalid. */
export function readTime(iso: string | null): number | null {
  const time = iso === null ? Number.NaN : Date.parse(iso);
  return Number.isNaN(time) ? null : time;
}
