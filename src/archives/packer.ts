import type { Packed } from './pack.js';

/** How many archives are made at once: what reads and deflates runs on Node's own pool, which has four threads. */
const concurrency = 4;

/**
 * Packs directories, a few at a time; the others wait. Reading, deflating and writing are done on Node's own threads,
 * piece by piece, so a large directory does not hold up whoever asks.
 */
export class Packer {
  #running = 0;
  /** What gives each that waits its turn, in order. */
  readonly #waiting = new Set<() => void>();

  /**
   * Packs a directory (see `packDirectory`). Aborting ends it; no partial archive stays behind.
   * @throws what `packDirectory` throws, or the reason of the signal
   */
  async pack(source: string, archive: string, signal: AbortSignal): Promise<Packed> {
    signal.throwIfAborted();
    await this.#turn(signal);
    try {
      // Loaded with the first result: the server answers the sooner.
      const { packDirectory } = await import('./pack.js');
      return await packDirectory(source, archive, { signal });
    } finally {
      this.#passOn();
    }
  }

  #turn(signal: AbortSignal): Promise<void> {
    if (this.#running < concurrency) {
      this.#running += 1;
      return Promise.resolve();
    }
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
      this.#running -= 1;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}
