import { Turns } from '../files/turns.js';
import type { Packed } from './pack.js';

/** How many archives are made at once: Node's thread pool, which reads and deflates, has four threads. */
const quickTurns = 4;

/** How many large archives are made at once, beside the small ones. */
const longTurns = 2;

/** A directory with at least this many entries or bytes counts as large: about a second of work. */
const largeEntries = 5_000;
const largeBytes = 64 * 1024 * 1024;

/** What a large archive packs in one turn where others wait: one of sparse files may take hours. */
const turnEntries = 20_000;
const turnBytes = 256 * 1024 * 1024;

/** How much was packed when a turn began. */
interface TurnStart {
  readonly entries: number;
  readonly bytes: number;
}

/**
 * Packs directories, a few at a time; the others wait. A directory that turns out to be large gives up its turn and waits
 * for one among the large ones, so that a small result never waits for a large one. Where others wait, a large one gives up
 * its turn after a share of the work and waits behind them. One that waits keeps at most five descriptors open (the source, a
 * directory below it and its listing, a file, the archive), and there are no more of them than active jobs. Reading, deflating
 * and writing run on Node's thread pool, piece by piece, so packing does not block the event loop.
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
    let long: TurnStart | null = null;
    const waitForLong = async (start: TurnStart) => {
      long = start;
      release();
      release = await this.#long.take(signal);
    };
    try {
      // Imported lazily to keep start-up fast.
      const { packDirectory } = await import('./pack.js');
      const pace = (entries: number, bytes: number) =>
        this.#isTurnOver(long, entries, bytes) ? waitForLong({ entries, bytes }) : undefined;
      return await packDirectory(source, archive, { signal, openUp: true, pace });
    } finally {
      release();
    }
  }

  /** @param long where the turn among the large ones began; null in a turn among the small ones */
  #isTurnOver(long: TurnStart | null, entries: number, bytes: number): boolean {
    if (long === null) return entries >= largeEntries || bytes >= largeBytes;
    const isUsed = entries - long.entries >= turnEntries || bytes - long.bytes >= turnBytes;
    return isUsed && this.#long.areAwaited;
  }
}
