import type { Stats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import { quoteName } from '../contract/quote.js';
import { faultWithoutPath, isShortage } from '../files/error-code.js';
import type { Notes } from '../files/notes.js';
import { deflated, isCompressed, isCompressible, sampleBytes } from './compressible.js';
import { DeflatedPieces } from './deflated-pieces.js';
import { FileContent, type Flaw, readSmall } from './file-content.js';
import type { OpenedFile } from './listed-files.js';
import type { ZipWriter } from './zip-writer.js';

export interface EntryPackerOptions {
  readonly notes: Notes;
  /** Whether a file that cannot be read whole ends the packing. */
  readonly strict: boolean;
  /** Called when more was read, with the entries and bytes so far; packing goes on when it resolves. */
  readonly onMore: (entries: number, bytes: number) => Promise<void> | void;
}

/** The result of a read; null if the file cannot be read. */
type Attempt<T> = { readonly value: T } | null;

/** Adds the files of a walk to an archive. A file that cannot be read is left out; the others are still packed. */
export class EntryPacker {
  files = 0;
  bytes = 0;
  /** Also empty directories, and files that were left out. */
  #entries = 0;

  constructor(
    private readonly zip: ZipWriter,
    private readonly options: EntryPackerOptions,
  ) {}

  async add({ name, stats, file }: OpenedFile): Promise<void> {
    if (file === null) await this.zip.addBytes({ name }, stats, Buffer.alloc(0));
    else if (await this.#addFile(name, stats, file)) this.files += 1;
    await this.count();
  }

  /** Counts an entry, also one that is left out: to look at it is work as well. */
  async count(): Promise<void> {
    this.#entries += 1;
    await this.options.onMore(this.#entries, this.bytes);
  }

  #addFile(name: string, stats: Stats, file: FileHandle): Promise<boolean> {
    return stats.size <= sampleBytes ? this.#addSmall(name, stats, file) : this.#addLarge(name, stats, file);
  }

  /** Adds a file that is read whole into memory and deflated once. */
  async #addSmall(name: string, stats: Stats, file: FileHandle): Promise<boolean> {
    const read = await this.#attempt(name, () => readSmall(file, stats.size));
    if (!read) return false;
    const { bytes, flaw } = read.value;
    this.#tell(name, flaw);
    const shorter = isCompressed(name) ? null : await deflated(bytes);
    const header = shorter ? { name, deflated: { size: bytes.length, crc: crc32(bytes) } } : { name };
    await this.zip.addBytes(header, stats, shorter ?? bytes);
    this.bytes += bytes.length;
    return true;
  }

  /** Adds a file while it is read. */
  async #addLarge(name: string, stats: Stats, file: FileHandle): Promise<boolean> {
    const sample = await this.#attempt(name, async () =>
      isCompressed(name) ? false : isCompressible(file, stats.size),
    );
    if (!sample) return false;
    const content = new FileContent(file, stats.size, (more) => {
      this.bytes += more;
      return this.options.onMore(this.#entries, this.bytes);
    });
    const deflated = sample.value ? new DeflatedPieces(content) : undefined;
    await this.zip.addStream(deflated ? { name, deflated } : { name }, stats, deflated ?? content);
    this.#tell(name, content.flaw);
    return true;
  }

  /** Null if the file cannot be read; a note says so. */
  async #attempt<T>(name: string, read: () => Promise<T>): Promise<Attempt<T>> {
    try {
      return { value: await read() };
    } catch (cause) {
      if (this.options.strict || isShortage(cause)) throw cause;
      this.options.notes.add(
        `${quoteName(name)} cannot be read: ${faultWithoutPath(cause)}, and was left out`,
      );
      return null;
    }
  }

  #tell(name: string, flaw: Flaw): void {
    if (flaw === null) return;
    if (this.options.strict) throw new Error(`${quoteName(name)} ${flaw}`);
    this.options.notes.add(`${quoteName(name)} ${flaw}`);
  }
}
