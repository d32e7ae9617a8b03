import { setTimeout as delay } from 'node:timers/promises';
import { isDiskFull, isShortage } from '../files/error-code.js';

/** Milliseconds between two tries on a machine that has no room at the moment. */
const retryInterval = 1000;

/**
 * Does what takes room on the disk, descriptors or processes, as soon as there are some: what others have used up is no
 * fault of a job.
 * @param isGivenUp asked before each try
 * @param tell called once, where there is no room
 * @returns false where it was given up
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
      if (!isShortage(cause) && !isDiskFull(cause)) throw cause;
      if (!told) tell(cause);
      await delay(retryInterval, undefined, { ref: false });
    }
  }
  return false;
}
