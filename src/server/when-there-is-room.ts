import { setTimeout as delay } from 'node:timers/promises';
import { isDiskFull, isProgramAway, isShortage } from '../files/index.js';

/** Milliseconds between two attempts. */
const retryInterval = 1000;

/**
 * Retries a step until there is enough disk space, and enough descriptors and processes. A job must not fail because others have
 * used these up, or because an upgrade is replacing the program.
 * @param isGivenUp called before each attempt
 * @param onShortage called once, after the first failed attempt
 * @returns false if it was given up
 */
export async function whenThereIsRoom(
  step: () => Promise<void>,
  isGivenUp: () => boolean,
  onShortage: (cause: unknown) => void,
): Promise<boolean> {
  for (let isReported = false; !isGivenUp(); isReported = true) {
    try {
      await step();
      return true;
    } catch (cause) {
      if (!isShortage(cause) && !isDiskFull(cause) && !isProgramAway(cause)) throw cause;
      if (!isReported) onShortage(cause);
      await delay(retryInterval, undefined, { ref: false });
    }
  }
  return false;
}
