import type { Stats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { promisify } from 'node:util';
import { deflateRaw } from 'node:zlib';
import { quoteName } from '../contract/index.js';
import { errorCode, faultWithoutPath, isShortage, type Notes } from '../files/index.js';
import type { OpenedFile, PackedPiece } from './walk-files.js';
import type { ZipWriter } from './zip-writer.js';

/** Most bytes read from a file at once. */
const readSize = 1024 * 1024;

/**
 * Why the archive does not hold the file as it was when it was opened, as a phrase that follows its name; null if it
 * does.
 */
type Flaw = string | null;

/** Reads a small file: as many bytes as it had when it was opened, or fewer if it has become shorter. */
export async function readSmall(file: FileHandle, size: number): Promise<{ bytes: Buffer; flaw: Flaw }> {
  // One byte more than expected: reading it shows that the file has grown.
  const buffer = Buffer.allocUnsafe(size + 1);
  let filled = 0;
  while (filled < buffer.length) {
    const { bytesRead } = await file.read(buffer, filled, buffer.length - filled, filled);
    filled += bytesRead;
    if (bytesRead === 0 || filled === size) break;
  }
  return { bytes: buffer.subarray(0, Math.min(filled, size)), flaw: sizeFlaw(size, filled) };
}

const sizeFlaw = (size: number, found: number): Flaw =>
  found === size
    ? null
    : `${found < size ? 'became shorter' : 'grew'} while it was packed, and was cut there`;

/** The bytes of pieces. The file has to stay as it was when it was opened: they were chosen by its content. */
async function* piecesOf(
  file: FileHandle,
  { size, mtimeMs }: Stats,
  pieces: readonly PackedPiece[],
  onPiece: (bytes: number) => Promise<void> | void,
): AsyncGenerator<Buffer> {
  for (const piece of pieces) {
    if (piece instanceof Uint8Array) {
      if (piece.length > 0) yield Buffer.from(piece.buffer, piece.byteOffset, piece.length);
      await onPiece(piece.length);
      continue;
    }
    for (let at = piece.start; at < piece.end; ) {
      const wanted = Math.min(readSize, piece.end - at);
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(wanted), 0, wanted, at);
      if (bytesRead === 0) throw new Error('became shorter while it was packed');
      at += bytesRead;
      yield buffer.subarray(0, bytesRead);
      await onPiece(bytesRead);
    }
  }
  const now = await file.stat();
  if (now.size !== size || now.mtimeMs !== mtimeMs) throw new Error('changed while it was packed');
}

/**
 * The bytes of a large file, as many as it had when it was opened. Never throws: the bytes read so far are in the archive
 * already, so at a read error the content ends and `flaw` says so.
 */
export class FileContent {
  flaw: Flaw = null;

  constructor(
    private readonly file: FileHandle,
    private readonly size: number,
    /** Called with the bytes of each piece; the next is read when it resolves. */
    private readonly onPiece: (bytes: number) => Promise<void> | void,
  ) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    let done = 0;
    while (done < this.size) {
      const piece = await this.#read(done);
      if (piece === null) return;
      done += piece.length;
      yield piece;
      await this.onPiece(piece.length);
    }
    const now = await this.file.stat().catch(() => null);
    this.flaw = sizeFlaw(this.size, Math.max(this.size, now?.size ?? 0));
  }

  async #read(position: number): Promise<Buffer | null> {
    const wanted = Math.min(readSize, this.size - position);
    try {
      const { bytesRead, buffer } = await this.file.read(Buffer.allocUnsafe(wanted), 0, wanted, position);
      if (bytesRead > 0) return buffer.subarray(0, bytesRead);
      this.flaw = sizeFlaw(this.size, position);
    } catch (cause) {
      this.flaw = `could be read only as far as byte ${position} (${errorCode(cause)}), and was cut there`;
    }
    return null;
  }
}

const deflate = promisify(deflateRaw);

/** File formats that are already compressed. Sampling only their header could mislead. */
const compressedSuffix = /\.(gz|png|jpe?g|jp2|zip|zst|xz|bz2|7z|mp4|webp|npz|safetensors)$/i;

/** Bytes of one sample. A file of at most this size is small, and deflated whatever it holds. */
const sampleBytes = 64 * 1024;

/** A file that deflates to more than this share of its size is stored: the saving is not worth the time. */
const worthwhile = 0.92;

/** Whether a file's name says that deflating would not make it smaller. */
const isCompressed = (name: string): boolean => compressedSuffix.test(name);

/**
 * Whether deflating a large file would make it smaller, judged by samples from its start, middle and end. Deflating
 * data that does not shrink takes twenty times as long as storing it.
 */
async function isCompressible(file: FileHandle, size: number): Promise<boolean> {
  let before = 0;
  let after = 0;
  for (const position of [0, Math.floor((size - sampleBytes) / 2), size - sampleBytes]) {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(sampleBytes), 0, sampleBytes, position);
    before += bytesRead;
    after += (await deflate(buffer.subarray(0, bytesRead), { level: 1 })).length;
  }
  return after < before * worthwhile;
}

export interface EntryPackerOptions {
  readonly notes: Notes;
  /** Whether a file that cannot be read whole ends the packing. */
  readonly strict: boolean;
  /** Whether no file is deflated. */
  readonly isStored: boolean;
  /** Called after each read with the totals of entries and bytes; packing continues when it resolves. */
  readonly onMore: (entries: number, bytes: number) => Promise<void> | void;
}

/** The result of a read; null if the file cannot be read. */
type Attempt<T> = { readonly value: T } | null;

/** Adds the files of a walk to an archive. A file that cannot be read is left out; the others are still packed. */
export class EntryPacker {
  files = 0;
  bytes = 0;
  /** Also empty directories, and files that were left out. */
  entries = 0;

  constructor(
    private readonly zip: ZipWriter,
    private readonly options: EntryPackerOptions,
  ) {}

  async add({ name, stats, file, pieces }: OpenedFile): Promise<void> {
    if (file === null) await this.zip.addDirectory(name, stats);
    else if (pieces) await this.#addPieces(name, stats, file, pieces);
    else if (await this.#addFile(name, stats, file)) this.files += 1;
    await this.count();
  }

  /** Counts an entry, including one that is left out, because looking at it is work too. */
  async count(): Promise<void> {
    this.entries += 1;
    await this.options.onMore(this.entries, this.bytes);
  }

  #addFile(name: string, stats: Stats, file: FileHandle): Promise<boolean> {
    return stats.size <= sampleBytes ? this.#addSmall(name, stats, file) : this.#addLarge(name, stats, file);
  }

  /** Adds a file that is read whole into memory, so that one that cannot be read leaves no entry. */
  async #addSmall(name: string, stats: Stats, file: FileHandle): Promise<boolean> {
    const read = await this.#attempt(name, () => readSmall(file, stats.size));
    if (!read) return false;
    const { bytes, flaw } = read.value;
    const { isStored } = this.options;
    this.#tell(name, flaw);
    await this.zip.addFile(name, stats, bytes.length === 0 ? [] : [bytes], !isStored && !isCompressed(name));
    this.bytes += bytes.length;
    return true;
  }

  /** Adds pieces of a file. What cannot be read ends the packing. */
  async #addPieces(
    name: string,
    stats: Stats,
    file: FileHandle,
    pieces: readonly PackedPiece[],
  ): Promise<void> {
    const deflates =
      !this.options.isStored && (stats.size <= sampleBytes || (await isCompressible(file, stats.size)));
    const content = piecesOf(file, stats, pieces, (more) => {
      this.bytes += more;
      return this.options.onMore(this.entries, this.bytes);
    });
    let fault: Error | null = null;
    // The source must not throw.
    const source = async function* () {
      try {
        yield* content;
      } catch (cause) {
        fault = new Error(`${quoteName(name)} ${(cause as Error).message}`, { cause });
      }
    };
    await this.zip.addFile(name, stats, source(), deflates);
    if (fault !== null) throw fault;
    this.files += 1;
  }

  /** Adds a file while it is read. */
  async #addLarge(name: string, stats: Stats, file: FileHandle): Promise<boolean> {
    const sample = await this.#attempt(name, async () =>
      this.options.isStored || isCompressed(name) ? false : isCompressible(file, stats.size),
    );
    if (!sample) return false;
    const content = new FileContent(file, stats.size, (more) => {
      this.bytes += more;
      return this.options.onMore(this.entries, this.bytes);
    });
    await this.zip.addFile(name, stats, content, sample.value);
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
