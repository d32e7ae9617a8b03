import type { Stats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { deflateRaw } from 'node:zlib';
import { maxEntries, quoteName } from '../contract/index.js';
import { errorCode, faultWithoutPath, isShortage, type Notes } from '../files/index.js';
import { addDirectories } from './entry-places.js';
import type { OpenedFile, PackedPiece } from './walk-files.js';
import type { ZipWriter } from './zip-writer.js';

/** Maximum number of bytes read from a file at once. */
const readSize = 1024 * 1024;

/**
 * Yields these pieces of a file, which must not change after it is opened.
 * @param onFlaw called with what is wrong, as a phrase that follows the name of the file. If it does not throw, the output ends
 *   there
 */
async function* contentOf(
  file: FileHandle,
  { size, mtimeMs }: Stats,
  pieces: readonly PackedPiece[],
  onFlaw: (flaw: string) => void,
): AsyncGenerator<Buffer> {
  for (const piece of pieces) {
    if (piece instanceof Uint8Array) {
      yield Buffer.from(piece.buffer, piece.byteOffset, piece.length);
      continue;
    }
    for (let at = piece.start; at < piece.end; ) {
      const wanted = Math.min(readSize, piece.end - at);
      const read = await file
        .read(Buffer.allocUnsafe(wanted), 0, wanted, at)
        .catch((cause) => onFlaw(`could be read only as far as byte ${at} (${errorCode(cause)})`));
      if (read?.bytesRead === 0) onFlaw('became shorter while it was packed');
      if (!read?.bytesRead) return;
      at += read.bytesRead;
      yield read.buffer.subarray(0, read.bytesRead);
    }
  }
  const now = await file.stat();
  if (now.size !== size || now.mtimeMs !== mtimeMs) onFlaw('changed while it was packed');
}

const deflate = promisify(deflateRaw);

/** File formats that are already compressed. Samples of such a file could mislead if they hit only its header. */
const compressedSuffix = /\.(gz|png|jpe?g|jp2|zip|zst|xz|bz2|7z|mp4|webp|npz|safetensors)$/i;

/** Size in bytes of one sample. */
const sampleBytes = 64 * 1024;

/** A file that deflates to more than this share of its size is stored instead, because the saving is not worth the time. */
const worthwhile = 0.92;

/**
 * Whether deflating a file would make it smaller, judged by samples from its start, middle and end. Deflating data that does
 * not shrink takes twenty times as long as storing it. A small file is deflated whatever it holds.
 */
async function isCompressible(file: FileHandle, size: number): Promise<boolean> {
  if (size <= sampleBytes) return true;
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
  /** Whether a file that cannot be read completely ends the packing. */
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
  readonly #directories = new Set<string>();

  constructor(
    private readonly zip: ZipWriter,
    private readonly options: EntryPackerOptions,
  ) {}

  /** Whether an archive with one more file of this name can be extracted, which also creates the directories of its files. */
  admits(name: string): boolean {
    addDirectories(this.#directories, path.dirname(name), '.');
    return this.entries + this.#directories.size < maxEntries;
  }

  async add({ name, stats, file, pieces }: OpenedFile): Promise<void> {
    if (file === null) await this.zip.addDirectory(name, stats);
    else if (await this.#isReadable(name, file)) await this.#addFile(name, stats, file, pieces);
    await this.count();
  }

  /** Counts an entry, also if it is left out, because examining it is work too. */
  async count(): Promise<void> {
    this.entries += 1;
    await this.options.onMore(this.entries, this.bytes);
  }

  /** Whether a file can be read at all; if not, a note says that it is left out. */
  async #isReadable(name: string, file: FileHandle): Promise<boolean> {
    try {
      await file.read(Buffer.alloc(1), 0, 1, 0);
      return true;
    } catch (cause) {
      if (this.options.strict || isShortage(cause)) throw cause;
      this.options.notes.add(
        `${quoteName(name)} cannot be read: ${faultWithoutPath(cause)}, and was left out`,
      );
      return false;
    }
  }

  /**
   * Adds a file to the archive while reading it. If the caller chose pieces of it, any flaw ends the packing, because they were
   * chosen by the file's content.
   */
  async #addFile(
    name: string,
    stats: Stats,
    file: FileHandle,
    pieces?: readonly PackedPiece[],
  ): Promise<void> {
    const { isStored, strict, notes } = this.options;
    const onFlaw = (flaw: string) => {
      if (strict || pieces) throw new Error(`${quoteName(name)} ${flaw}`);
      notes.add(`${quoteName(name)} ${flaw}`);
    };
    const content = contentOf(file, stats, pieces ?? [{ start: 0, end: stats.size }], onFlaw);
    // A read error is reported later, when the content is read.
    const shrinks = () => isCompressible(file, stats.size).catch(() => false);
    const deflates = !isStored && !compressedSuffix.test(name) && (await shrinks());
    await this.zip.addFile(name, stats, this.#counted(content), deflates);
    this.files += 1;
  }

  async *#counted(content: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const piece of content) {
      yield piece;
      this.bytes += piece.length;
      await this.options.onMore(this.entries, this.bytes);
    }
  }
}
