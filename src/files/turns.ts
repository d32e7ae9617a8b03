/** Gives a turn back; a second call does nothing. */
export type Release = () => void;

/** So many turns at once, in the order in which they are asked for. */
export class Turns {
  /** What gives each that waits its turn, in order. */
  readonly #waiting = new Set<() => void>();

  constructor(private free: number) {}

  /**
   * Resolves with a turn, when there is one.
   * @throws the reason of the signal
   */
  async take(signal: AbortSignal): Promise<Release> {
    signal.throwIfAborted();
    if (this.free > 0) this.free -= 1;
    else await this.#wait(signal);
    let isTaken = true;
    return () => {
      if (isTaken) this.#passOn();
      isTaken = false;
    };
  }

  #wait(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const take = () => {
        signal.removeEventListener('abort', leave);
        resolve();
      };
      const leave = () => {
        this.#waiting.delete(take);
        reject(signal.reason);
      };
      signal.addEventListener('abort', leave, { once: true });
      this.#waiting.add(take);
    });
  }

  #passOn(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.free += 1;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}
