import { Turns } from '../files/turns.js';
import type { Packed } from './pack.js';

/** How many archives are made at once: Node's thread pool, which reads and deflates, has four threads. */
const quickTurns = 4;

/** How many large archives are made at once, beside the small ones. */
const longTurns = 2;

/** A directory with at least this many files or bytes counts as large: about a second of work. */
const largeFiles = 5_000;
const largeBytes = 64 * 1024 * 1024;

/**
 * Packs directories, a few at a time; the others wait. A directory that turns out to be large gives up its turn and waits
 * for one among the large ones, so that a small result never waits for a large one. Reading, deflating and writing run on
 * Node's thread pool, piece by piece, so packing does not block the event loop.
 */
export class Packer {
  readonly #quick = new Turns(quickTurns);
  readonly #long = new Turns(longTurns);

  /**
   * Packs a directory (see `packDirectory`). Files of this user that are not readable are made readable. Aborting the
   * signal ends it and leaves no partial archive.
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
      // Imported lazily to keep start-up fast.
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
