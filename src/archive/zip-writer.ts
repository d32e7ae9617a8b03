import { once } from 'node:events';
import type { Stats } from 'node:fs';
import { PassThrough, Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { ZipArchive } from 'archiver';
import { directoryIn, endOf, movedDirectory } from './zip-directory.js';

/** Number of bytes that are read or deflated at once. */
const pieceSize = 64 * 1024;

/** Maximum number of entries in a part. archiver takes about 10 KB of memory per entry when it ends a part. */
const maxPartEntries = 1000;

/** The part of a file's mode that an archive contains: who may read, write and execute it. */
const permissions = 0o777;

/** The time and mode of entries that hide those of their files: the earliest time that zip can represent, and the usual mode. */
const noStats = { date: new Date(Date.UTC(1980, 0, 1)), mode: 0o644 };

/** A part of the archive: a small zip archive, whose own directory is not passed on. */
interface Part {
  readonly zip: ZipArchive;
  /** Resolves when the whole part was read. */
  copied: Promise<void>;
  /** Number of bytes that were passed on. */
  sent: number;
  /** Everything read since the part was ended: the rest of the last entries, and the directory. Null before that. */
  tail: Buffer[] | null;
}

/**
 * Writes a zip archive to a sink, one entry at a time. archiver needs about 10 KB of memory per entry when it ends an archive, so
 * this class has it write small archives (parts), removes their directories, and writes one directory of all entries at the end,
 * which takes some 50 bytes per entry plus its name. Names must be in the form that archiver preserves (see `carriedName`).
 */
export class ZipWriter {
  readonly #failed = new AbortController();
  readonly #out = new PassThrough({ highWaterMark: pieceSize });
  readonly #written: Promise<void>;
  /** The directory so far, a piece for each part. */
  readonly #directory: Buffer[] = [];
  #part: Part | null = null;
  #entries = 0;
  /** Number of bytes written to the sink. */
  #size = 0;

  /** @param withoutStats whether to hide the times and modes of the files in their entries */
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
    await this.#append(this.#current(), Buffer.alloc(0), name, stats, true);
  }

  /**
   * Adds a file while reading it. If the source throws, the caller must abandon the archive, because part of the entry is already
   * written. Even a short file is passed on as a stream: archiver accepts buffers faster than the sink does, and would hold them
   * in memory.
   */
  async addFile(name: string, stats: Stats, source: AsyncIterable<Buffer>, deflate: boolean): Promise<void> {
    const part = this.#current();
    const content = Readable.from(source, { objectMode: false, highWaterMark: pieceSize });
    content.on('error', (cause) => part.zip.destroy(cause));
    try {
      await this.#append(part, content, name, stats, !deflate);
    } finally {
      content.destroy();
      if (!content.closed) await once(content, 'close');
    }
  }

  /** Writes the directory. Resolves when the sink has taken everything. */
  async finish(): Promise<void> {
    await this.#endPart();
    const start = this.#size;
    for (const piece of this.#directory) await this.#write(piece);
    this.#out.end(endOf({ entries: this.#entries, start, length: this.#size - start }));
    await this.#written;
  }

  /** Gives up writing. Returns the first error: that of the sink, or `cause`. */
  async abandon(cause: unknown): Promise<unknown> {
    const first = this.#failed.signal.aborted ? this.#failed.signal.reason : cause;
    this.#part?.zip.destroy();
    this.#out.destroy();
    await this.#written.catch(() => {});
    return first;
  }

  #current(): Part {
    if (this.#part) return this.#part;
    const zip = new ZipArchive({ zlib: { level: 1, chunkSize: pieceSize } });
    const part: Part = { zip, sent: 0, tail: null, copied: Promise.resolve() };
    part.copied = this.#copy(part);
    part.copied.catch((cause) => this.#failed.abort(cause));
    this.#part = part;
    return part;
  }

  async #copy(part: Part): Promise<void> {
    for await (const chunk of part.zip as AsyncIterable<Buffer>) {
      if (part.tail) part.tail.push(chunk);
      else {
        part.sent += chunk.length;
        await this.#write(chunk);
      }
    }
  }

  async #write(bytes: Buffer): Promise<void> {
    this.#size += bytes.length;
    if (!this.#out.write(bytes)) await once(this.#out, 'drain', { signal: this.#failed.signal });
  }

  async #append(
    part: Part,
    source: Buffer | Readable,
    name: string,
    stats: Stats,
    store: boolean,
  ): Promise<void> {
    const added = once(part.zip, 'entry', { signal: this.#failed.signal });
    const shown = this.withoutStats ? noStats : { date: stats.mtime, mode: stats.mode & permissions };
    part.zip.append(source, { name, store, ...shown });
    await added;
    this.#entries += 1;
    if (this.#entries % maxPartEntries === 0) await this.#endPart();
  }

  /** Passes on the rest of the current part's entries, if there is a part, and stores its directory. */
  async #endPart(): Promise<void> {
    const part = this.#part;
    if (!part) return;
    part.tail = [];
    // Reading the part throws the same error.
    part.zip.finalize().catch(() => {});
    await part.copied;
    this.#part = null;
    const base = this.#size - part.sent;
    const tail = Buffer.concat(part.tail);
    const { start, length } = directoryIn(tail);
    await this.#write(tail.subarray(0, start - part.sent));
    this.#directory.push(movedDirectory(tail.subarray(start - part.sent).subarray(0, length), base));
  }
}
