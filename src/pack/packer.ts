import { Turns } from '../files/turns.js';
import type { Packed } from './pack.js';

/** How many archives are made at once: what reads and deflates runs on Node's own pool, which has four threads. */
const quickTurns = 4;

/** How many of those that turned out large are made at once, beside the others. */
const longTurns = 2;

/** Files, and bytes of them, from which on a directory is a large one: about a second's work. */
const largeFiles = 5_000;
const largeBytes = 64 * 1024 * 1024;

/**
 * Packs directories, a few at a time; the others wait. One that turns out large gives its turn away, and goes on with
 * the other large ones: a small result never waits behind them. Reading, deflating and writing are done on Node's own
 * threads, piece by piece, so a large directory does not hold up whoever asks.
 */
export class Packer {
  readonly #quick = new Turns(quickTurns);
  readonly #long = new Turns(longTurns);

  /**
   * Packs a directory (see `packDirectory`). What in it belongs to this user and cannot be read is made readable.
   * Aborting ends it; no partial archive stays behind.
   * @throws what `packDirectory` throws, or the reason of the signal
   */
  async pack(source: string, archive: string, signal: AbortSignal): Promise<Packed> {
    let release = await this.#quick.take(signal);
    let isLong = false;
    const joinLong = async () => {
      isLong = true;
      release();
      release = await this.#long.take(signal);
    };
    try {
      // Loaded with the first result, to keep the server's start fast.
      const { packDirectory } = await import('./pack.js');
      const isLarge = (files: number, bytes: number) => files >= largeFiles || bytes >= largeBytes;
      const pace = (files: number, bytes: number) =>
        !isLong && isLarge(files, bytes) ? joinLong() : undefined;
      return await packDirectory(source, archive, { signal, openUp: true, pace });
    } finally {
      release();
    }
  }
}
