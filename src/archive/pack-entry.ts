import type { Stats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { promisify } from 'node:util';
import { deflateRaw } from 'node:zlib';
import { quoteName } from '../contract/index.js';
import { errorCode, faultWithoutPath, isShortage, type Notes } from '../files/index.js';
import type { OpenedFile, PackedPiece } from './walk-files.js';
import type { ZipWriter } from './zip-writer.js';

/** Maximum number of bytes read from a file at once. */
const readSize = 1024 * 1024;

/**
 * Why the archive does not hold the file as it was when it was opened, as a phrase that follows its name; null if it
 * does.
 */
type Flaw = string | null;

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
 * The bytes of a file, as many as it had when it was opened. Only reading the first piece throws. At a later error those
 * read so far are in the archive already, so the content ends and `flaw` says so.
 */
class FileContent {
  flaw: Flaw = null;
  #piece: Buffer = Buffer.alloc(0);
  #read = 0;
  /** Whether a read has tried to go past the expected end. */
  #isAtEnd = false;

  private constructor(
    private readonly file: FileHandle,
    private readonly size: number,
    /** Called with the bytes of each piece; the next is read when it resolves. */
    private readonly onPiece: (bytes: number) => Promise<void> | void,
  ) {}

  /** @throws the system's error if the file cannot be read */
  static async open(
    file: FileHandle,
    size: number,
    onPiece: (bytes: number) => Promise<void> | void,
  ): Promise<FileContent> {
    const content = new FileContent(file, size, onPiece);
    await content.#next();
    return content;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    while (this.#piece.length > 0) {
      yield this.#piece;
      await this.onPiece(this.#piece.length);
      try {
        await this.#next();
      } catch (cause) {
        this.flaw = `could be read only as far as byte ${this.#read} (${errorCode(cause)}), and was cut there`;
        return;
      }
    }
  }

  /** Reads the next piece, which is empty at the end. */
  async #next(): Promise<void> {
    this.#piece = Buffer.alloc(0);
    const left = this.size - this.#read;
    if (this.#isAtEnd) return;
    // One byte more than expected shows that the file has grown.
    const wanted = Math.min(readSize, left + 1);
    const { bytesRead, buffer } = await this.file.read(Buffer.allocUnsafe(wanted), 0, wanted, this.#read);
    this.#piece = buffer.subarray(0, Math.min(bytesRead, left));
    this.#read += this.#piece.length;
    this.#isAtEnd = this.#read === this.size && wanted > left;
    if (bytesRead > left) this.flaw = 'grew while it was packed, and was cut there';
    if (bytesRead === 0 && left > 0) this.flaw = 'became shorter while it was packed, and was cut there';
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

  /** Adds a file while it is read. One that cannot be read at all leaves no entry. */
  async #addFile(name: string, stats: Stats, file: FileHandle): Promise<boolean> {
    const attempt = await this.#attempt(name, async () => ({
      content: await FileContent.open(file, stats.size, (more) => this.#count(more)),
      deflates: !isCompressed(name) && (await this.#deflates(file, stats.size)),
    }));
    if (!attempt) return false;
    const { content, deflates } = attempt;
    await this.zip.addFile(name, stats, content, deflates);
    const { flaw } = content;
    if (flaw !== null && this.options.strict) throw new Error(`${quoteName(name)} ${flaw}`);
    if (flaw !== null) this.options.notes.add(`${quoteName(name)} ${flaw}`);
    return true;
  }

  async #deflates(file: FileHandle, size: number): Promise<boolean> {
    return !this.options.isStored && (size <= sampleBytes || (await isCompressible(file, size)));
  }

  #count(bytes: number): Promise<void> | void {
    this.bytes += bytes;
    return this.options.onMore(this.entries, this.bytes);
  }

  /** Adds pieces of a file. What cannot be read ends the packing. */
  async #addPieces(
    name: string,
    stats: Stats,
    file: FileHandle,
    pieces: readonly PackedPiece[],
  ): Promise<void> {
    const deflates = await this.#deflates(file, stats.size);
    const content = piecesOf(file, stats, pieces, (more) => this.#count(more));
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

  /** Null if the file cannot be read; a note says so. */
  async #attempt<T>(name: string, read: () => Promise<T>): Promise<T | null> {
    try {
      return await read();
    } catch (cause) {
      if (this.options.strict || isShortage(cause)) throw cause;
      this.options.notes.add(
        `${quoteName(name)} cannot be read: ${faultWithoutPath(cause)}, and was left out`,
      );
      return null;
    }
  }
}
