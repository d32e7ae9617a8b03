import { setMaxListeners } from 'node:events';
import pLimit from 'p-limit';

/** Gives a turn back. Further calls do nothing. */
export type Release = () => void;

/** A limited number of turns, given in the order of requests. */
export class Turns {
  readonly #limit;

  constructor(count: number) {
    this.#limit = pLimit(count);
  }

  /** Whether anybody is waiting for a turn. */
  get areAwaited(): boolean {
    return this.#limit.pendingCount > 0;
  }

  /**
   * Waits for a turn. Aborting the signal ends the wait; a turn that was given already must still be given back.
   * @throws the reason of the signal
   */
  async take(signal: AbortSignal): Promise<Release> {
    signal.throwIfAborted();
    // All callers may share one signal, and Node reports more than ten listeners as a leak.
    setMaxListeners(0, signal);
    return new Promise((resolve, reject) => {
      const giveUp = () => reject(signal.reason);
      signal.addEventListener('abort', giveUp, { once: true });
      void this.#limit(async () => {
        if (signal.aborted) return;
        signal.removeEventListener('abort', giveUp);
        await new Promise<void>((release) => resolve(release));
      });
    });
  }
}
