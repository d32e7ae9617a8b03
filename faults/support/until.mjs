import { setTimeout as delay } from 'node:timers/promises';

/** Longest wait for what must happen, in milliseconds: no measure of speed, but of whether it happens at all. */
export const patience = 60_000;

/**
 * Waits until `look` gives something other than null, undefined or false.
 * @throws Error naming what was waited for
 */
export async function until(what, look, limit = patience, interval = 20) {
  const deadline = Date.now() + limit;
  for (;;) {
    const found = await look();
    if (found !== null && found !== undefined && found !== false) return found;
    if (Date.now() > deadline) throw new Error(`Not within ${limit / 1000} s: ${what}`);
    await delay(interval);
  }
}

/** Rejects when `promise` has not settled in time. */
export async function within(what, promise, limit = patience) {
  const ended = new AbortController();
  const late = delay(limit, undefined, { signal: ended.signal }).then(() => {
    throw new Error(`Not within ${limit / 1000} s: ${what}`);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    ended.abort();
    late.catch(() => {});
  }
}
