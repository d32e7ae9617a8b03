// @ts-check
import { setTimeout as delay } from 'node:timers/promises';

/** Milliseconds after which a wait fails. */
const patience = 30_000;

/** After a slow check the pause is longer, so that checking does not slow down what is awaited. */
const longestPause = 200;

/**
 * Checks the condition repeatedly until it holds, and returns its value.
 * @template T
 * @param {string} what what is waited for, for the error
 * @param {() => T | Promise<T>} condition holds when it gives anything but null, undefined, false, 0 or ''
 * @param {number} [limit] milliseconds
 * @param {number} [interval] least milliseconds between two looks
 * @returns {Promise<NonNullable<T>>}
 */
export async function until(what, condition, limit = patience, interval = 15) {
  const deadline = Date.now() + limit;
  for (;;) {
    const start = performance.now();
    const value = await condition();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`Not within ${limit / 1000} s: ${what}`);
    const took = performance.now() - start;
    await delay(Math.max(interval, Math.min(5 * took, longestPause)));
  }
}
