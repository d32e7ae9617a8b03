import { setTimeout as delay } from 'node:timers/promises';
import { isShortage } from '../files/error-code.js';

/** Milliseconds between two tries, and the number of tries: half a minute in all. */
const pause = 250;
const tries = 120;

/**
 * Retries a call while the machine is short of descriptors or memory, so that a file does not count as unreadable only
 * because the server is busy.
 * @throws any other error of the call at once, and the shortage after the last try
 */
export async function retryShortage<T>(call: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (let left = tries; ; left -= 1) {
    try {
      return await call();
    } catch (cause) {
      if (left === 0 || !isShortage(cause)) throw cause;
    }
    await delay(pause, undefined, signal ? { signal } : {});
  }
}
