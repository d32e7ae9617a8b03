import { setTimeout as delay } from 'node:timers/promises';
import { until as wait } from '../../support/until.mjs';

/** Longest wait for an event, in milliseconds. It limits whether the event happens at all, not how fast. */
export const patience = 60_000;

/**
 * Waits like the tests, but longer, because the machine is busy.
 * @throws Error naming what was waited for
 */
export const until = (what, look, limit = patience, interval = 20) => wait(what, look, limit, interval);

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
