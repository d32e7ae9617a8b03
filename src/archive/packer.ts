import { Turns } from '../files/index.js';
import { type Packed, packDirectory } from './pack.js';

/** Maximum number of archives that are made at once: Node's thread pool, which reads and deflates, has four threads. */
const quickTurns = 4;

/** Maximum number of large archives that are made at once, in addition to the small ones. */
const longTurns = 2;

/** How much of a directory was packed: entries and bytes. */
interface Work {
  readonly entries: number;
  readonly bytes: number;
}

/** The amount of work from which a directory counts as large: about a second. */
const large: Work = { entries: 5_000, bytes: 64 * 1024 * 1024 };

/**
 * How much of a large directory is packed before it gives way to waiting ones. Otherwise one result of sparse files could take
 * hours.
 */
const turn: Work = { entries: 20_000, bytes: 256 * 1024 * 1024 };

/** Whether either limit is reached. */
const reaches = (done: Work, { entries, bytes }: Work): boolean =>
  done.entries >= entries || done.bytes >= bytes;

/**
 * Packs a few directories at once; the others wait. A directory that turns out to be large gives up its turn and queues with the
 * other large ones, so that a small result never waits for a large one. While others are waiting, a large one gives up its turn
 * again after a share of the work. A waiting pack keeps at most five descriptors open (the source, a directory below it and its
 * listing, a file, the archive), and there are at most as many packs as active jobs. Reading, deflating and writing run on Node's
 * thread pool, piece by piece, so packing does not block the event loop.
 */
export class Packer {
  readonly #quick = new Turns(quickTurns);
  readonly #long = new Turns(longTurns);

  /**
   * Packs a directory (see `packDirectory`). Makes this user's unreadable files readable. Aborting the signal ends the packing
   * and leaves no partial archive.
   * @throws what `packDirectory` throws, or the reason of the signal
   */
  async pack(source: string, archive: string, signal: AbortSignal): Promise<Packed> {
    let release = await this.#quick.take(signal);
    let long: Work | null = null;
    const waitForLong = async (start: Work) => {
      long = start;
      release();
      release = await this.#long.take(signal);
    };
    try {
      const onProgress = (entries: number, bytes: number) =>
        this.#isTurnOver(long, { entries, bytes }) ? waitForLong({ entries, bytes }) : undefined;
      return await packDirectory(source, archive, { signal, openUp: true, onProgress });
    } finally {
      release();
    }
  }

  /** @param long the work done when the current turn among the large directories began; null in a turn among the small ones */
  #isTurnOver(long: Work | null, done: Work): boolean {
    if (long === null) return reaches(done, large);
    const inTurn = { entries: done.entries - long.entries, bytes: done.bytes - long.bytes };
    return reaches(inTurn, turn) && this.#long.areAwaited;
  }
}
