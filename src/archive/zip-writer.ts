import { once } from 'node:events';
import type { Stats } from 'node:fs';
import { PassThrough, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { crc32, createDeflateRaw } from 'node:zlib';
import { descriptorOf, directoryEntry, endOf, localHeader, type WrittenEntry } from './zip-records.js';

/** Bytes of a piece that is read or deflated at once. */
const pieceSize = 64 * 1024;

/** The time and mode of entries without those of their files: the earliest time that zip knows, and the usual mode. */
const noStats = { mtime: new Date(Date.UTC(1980, 0, 1)), mode: 0o644 };

/**
 * Writes a zip archive to a sink, one entry at a time. Names need to be those that zip can carry (see `carriedName`). The README
 * of this module says why no library does it.
 */
export class ZipWriter {
  readonly #failed = new AbortController();
  readonly #out = new PassThrough({ highWaterMark: pieceSize });
  readonly #written: Promise<void>;
  /** What the directory says about the entries so far. */
  readonly #directory: Buffer[] = [];
  /** Bytes given to the sink. */
  #size = 0;

  /** @param withoutStats whether entries show neither the times nor the modes of their files */
  constructor(
    sink: Writable,
    signal: AbortSignal | undefined,
    private readonly withoutStats: boolean,
  ) {
    this.#written = pipeline(this.#out, sink, signal ? { signal } : {});
    this.#written.catch((cause) => this.#failed.abort(cause));
  }

  /** Adds an empty directory, whose name ends with a slash. */
  async addDirectory(name: string, stats: Stats): Promise<void> {
    const entry = this.#entry(name, stats, false);
    await this.#write(localHeader(entry));
    this.#directory.push(directoryEntry(entry));
  }

  /** Adds a file while it is read. */
  async addFile(name: string, stats: Stats, source: AsyncIterable<Buffer>, deflates: boolean): Promise<void> {
    const entry = this.#entry(name, stats, deflates);
    await this.#write(localHeader(entry));
    const start = this.#size;
    const measured = async function* () {
      for await (const piece of source) {
        entry.crc = crc32(piece, entry.crc);
        entry.size += piece.length;
        yield piece;
      }
    };
    const write = async (pieces: AsyncIterable<Buffer>) => {
      for await (const piece of pieces) await this.#write(piece);
    };
    if (deflates) await pipeline(measured, createDeflateRaw({ level: 1, chunkSize: pieceSize }), write);
    else await write(measured());
    entry.packed = this.#size - start;
    await this.#write(descriptorOf(entry));
    this.#directory.push(directoryEntry(entry));
  }

  /** Writes the directory. Resolves when the sink has taken everything. */
  async finish(): Promise<void> {
    const start = this.#size;
    for (const entry of this.#directory) await this.#write(entry);
    this.#out.end(endOf({ entries: this.#directory.length, start, length: this.#size - start }));
    await this.#written;
  }

  /** Gives up writing. Returns the first error: that of the sink, or `cause`. */
  async abandon(cause: unknown): Promise<unknown> {
    const first = this.#failed.signal.aborted ? this.#failed.signal.reason : cause;
    this.#out.destroy();
    await this.#written.catch(() => {});
    return first;
  }

  /** An entry that begins here, without content. */
  #entry(name: string, stats: Stats, isDeflated: boolean): WrittenEntry {
    const { mtime, mode } = this.withoutStats ? noStats : stats;
    return {
      name: Buffer.from(name),
      mtime,
      mode,
      isDeflated,
      start: this.#size,
      crc: 0,
      packed: 0,
      size: 0,
    };
  }

  async #write(bytes: Buffer): Promise<void> {
    this.#size += bytes.length;
    if (!this.#out.write(bytes)) await once(this.#out, 'drain', { signal: this.#failed.signal });
  }
}
