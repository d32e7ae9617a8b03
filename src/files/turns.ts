import pLimit from 'p-limit';

/** Gives a turn back; a second call does nothing. */
export type Release = () => void;

/** So many turns at once, in the order in which they are asked for. */
export class Turns {
  readonly #limit;

  constructor(count: number) {
    this.#limit = pLimit(count);
  }

  /**
   * Resolves with a turn, when there is one. A turn that is held is not lost with the signal: its holder gives it back.
   * @throws the reason of the signal
   */
  async take(signal: AbortSignal): Promise<Release> {
    signal.throwIfAborted();
    return new Promise((resolve, reject) => {
      const leave = () => reject(signal.reason);
      signal.addEventListener('abort', leave, { once: true });
      // Of one that has left meanwhile the turn is passed on.
      void this.#limit(async () => {
        if (signal.aborted) return;
        signal.removeEventListener('abort', leave);
        await new Promise<void>((release) => resolve(release));
      });
    });
  }
}
