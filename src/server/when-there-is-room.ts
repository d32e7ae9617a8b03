import { setTimeout as delay } from 'node:timers/promises';
import { isDiskFull, isProgramAway, isShortage } from '../files/index.js';

/** Milliseconds between two tries. */
const retryInterval = 1000;

/**
 * Retries a step until there is enough disk space, and enough descriptors and processes: a job must not fail because
 * others have used them up, or because an upgrade replaces the program at this moment.
 * @param isGivenUp asked before each try
 * @param tell called once, if there is no room
 * @returns false if it was given up
 */
export async function whenThereIsRoom(
  step: () => Promise<void>,
  isGivenUp: () => boolean,
  tell: (cause: unknown) => void,
): Promise<boolean> {
  for (let told = false; !isGivenUp(); told = true) {
    try {
      await step();
      return true;
    } catch (cause) {
      if (!isShortage(cause) && !isDiskFull(cause) && !isProgramAway(cause)) throw cause;
      if (!told) tell(cause);
      await delay(retryInterval, undefined, { ref: false });
    }
  }
  return false;
}
