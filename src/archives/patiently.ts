import { setTimeout as delay } from 'node:timers/promises';
import { errorCode } from '../files/error-code.js';

/** What this process or machine is short of for a while; it says nothing about the file that was asked for. */
const shortages = ['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN'];

/** Milliseconds between two tries, and how many there are: half a minute. */
const pause = 250;
const tries = 120;

/** Whether a call failed for a shortage, and not for what it was called with. */
export const isShortage = (cause: unknown): boolean => shortages.includes(errorCode(cause));

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
