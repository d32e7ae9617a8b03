import { once } from 'node:events';
import type { Stats } from 'node:fs';
import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { ZipArchive } from 'archiver';

/** Bytes of a piece that is read or deflated at once. */
const pieceSize = 64 * 1024;

/** The part of a file's mode that an archive contains: who may read, write and execute it. */
const permissions = 0o777;

/** The time and mode of entries without those of their files: the earliest time that zip knows, and the usual mode. */
const noStats = { date: new Date(Date.UTC(1980, 0, 1)), mode: 0o644 };

interface ZipOptions {
  /** Whether to end the archive with the records of zip64 even if nothing in it needs them. */
  readonly forceZip64?: boolean;
  /** Whether entries show neither the times nor the modes of their files. */
  readonly withoutStats?: boolean;
}

/**
 * Writes a zip archive to a sink, one entry after the other: archiver keeps some 10 KB for each entry that waits. Names
 * must be those that archiver keeps (see `carriedName`).
 */
export class ZipWriter {
  readonly #failed = new AbortController();
  readonly #zip: ZipArchive;
  readonly #written: Promise<void>;
  readonly #withoutStats: boolean;
  #entries = 0;

  constructor(
    sink: Writable,
    signal: AbortSignal | undefined,
    { forceZip64 = false, withoutStats = false }: ZipOptions = {},
  ) {
    this.#withoutStats = withoutStats;
    this.#zip = new ZipArchive({ zlib: { level: 1, chunkSize: pieceSize }, forceZip64 });
    this.#written = pipeline(this.#zip, sink, signal ? { signal } : {});
    this.#written.catch((cause) => this.#failed.abort(cause));
  }

  /** How many entries it has. */
  get entries(): number {
    return this.#entries;
  }

  /** Adds an empty directory, whose name ends with a slash. */
  async addDirectory(name: string, stats: Stats): Promise<void> {
    await this.#append(Buffer.alloc(0), name, stats, true);
  }

  /**
   * Adds a file while it is read. The source must not throw: part of the entry is already written. A short file is
   * a stream as well, because archiver accepts buffers to store faster than the sink takes them.
   */
  async addFile(
    name: string,
    stats: Stats,
    source: AsyncIterable<Buffer> | Iterable<Buffer>,
    deflate: boolean,
  ): Promise<void> {
    const content = Readable.from(source, { objectMode: false, highWaterMark: pieceSize });
    content.on('error', (cause) => this.#zip.destroy(cause));
    try {
      await this.#append(content, name, stats, !deflate);
    } finally {
      content.destroy();
      if (!content.closed) await once(content, 'close');
    }
  }

  /** Writes the end of the archive. Resolves when the sink has taken everything. */
  async finish(): Promise<void> {
    await Promise.race([this.#zip.finalize(), this.#written]);
    await this.#written;
  }

  /** Gives up writing. Returns the first error: that of the sink, or `cause`. */
  async abandon(cause: unknown): Promise<unknown> {
    const first = this.#failed.signal.aborted ? this.#failed.signal.reason : cause;
    this.#zip.destroy();
    await this.#written.catch(() => {});
    return first;
  }

  async #append(source: Buffer | Readable, name: string, stats: Stats, store: boolean): Promise<void> {
    const added = once(this.#zip, 'entry', { signal: this.#failed.signal });
    const shown = this.#withoutStats ? noStats : { date: stats.mtime, mode: stats.mode & permissions };
    this.#zip.append(source, { name, store, ...shown });
    await added;
    this.#entries += 1;
  }
}
