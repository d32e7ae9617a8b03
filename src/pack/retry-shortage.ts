import { setTimeout as delay } from 'node:timers/promises';
import { isShortage } from '../files/error-code.js';

/** Milliseconds between two tries, and how many there are: half a minute. */
const pause = 250;
const tries = 120;

/**
 * Calls again while descriptors or memory are short: a file must not be taken for unreadable because the server is
 * busy.
 * @throws what the call throws otherwise, and the shortage where it lasts
 */
export async function patiently<T>(call: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (let left = tries; ; left -= 1) {
    try {
      return await call();
    } catch (cause) {
      if (left === 0 || !isShortage(cause)) throw cause;
    }
    await delay(pause, undefined, signal ? { signal } : {});
  }
}
