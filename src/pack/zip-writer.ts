import { once } from 'node:events';
import type { Stats } from 'node:fs';
import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { ZipArchive } from 'archiver';
import { type EntryHeader, ZipEngine } from './zip-engine.js';

/** Bytes that may be buffered. */
const bufferSize = 1 << 20;

const permissions = 0o777;

/** Writes a zip archive to a sink, entry by entry. An entry begins when the sink has taken most of the one before. */
export class ZipWriter {
  readonly #zip = new ZipArchive({ store: true, highWaterMark: bufferSize });
  readonly #failed = new AbortController();
  readonly #engine = new ZipEngine(this.#zip, this.#failed.signal);
  readonly #written: Promise<void>;

  constructor(sink: Writable, signal: AbortSignal | undefined) {
    this.#zip.on('warning', (warning) => this.#zip.destroy(warning));
    this.#written = pipeline(this.#zip, sink, signal ? { signal } : {});
    this.#written.catch((cause) => this.#failed.abort(cause));
  }

  /** Adds a file that is in memory, or a directory: no bytes, and a name that ends with a slash. */
  async addBytes(header: EntryHeader, stats: Stats, bytes: Buffer): Promise<void> {
    await this.#add(header, stats, bytes);
  }

  /** Adds a file while it is read. The source must not throw: a part of the entry is written by then. */
  async addStream(header: EntryHeader, stats: Stats, source: AsyncIterable<Buffer>): Promise<void> {
    const content = Readable.from(source, { objectMode: false, highWaterMark: bufferSize });
    content.on('error', (cause) => this.#zip.destroy(cause));
    try {
      await this.#add(header, stats, content);
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

  async #add(header: EntryHeader, stats: Stats, source: Buffer | Readable): Promise<void> {
    this.#engine.expect(header);
    const added = once(this.#zip, 'entry', { signal: this.#failed.signal });
    const name = header.name.endsWith('/') ? 'directory/' : 'file';
    this.#zip.append(source, { name, date: stats.mtime, mode: stats.mode & permissions });
    await added;
    await this.#engine.drained();
  }
}
