import { isUtf8 } from 'node:buffer';
import { type FileHandle, open } from 'node:fs/promises';
import { Readable } from 'node:stream';
import unzipper, { type CentralDirectory, type File } from 'unzipper';
import { ArchiveError, damagedEntry } from './errors.js';
import { end64Size, endSize, entrySize, locatorSize } from './zip-directory.js';

/** Bytes read at once. */
const chunkSize = 64 * 1024;

/**
 * The content of an archive, in the form that unzipper reads. All streams read through one open file, so no stream can leak a
 * descriptor, and the archive may be replaced in the meantime without effect.
 */
export class ArchiveSource implements AsyncDisposable {
  /** The disk's read error, if there was one; unzipper sees only that the file ended too soon. */
  failure: unknown;
  /** The bytes that were read last. Small entries are adjacent, so one read serves many of them. */
  #window: { readonly start: number; readonly bytes: Buffer } = { start: 0, bytes: Buffer.alloc(0) };

  private constructor(
    readonly file: FileHandle,
    private readonly bytes: number,
  ) {}

  static async open(archive: string): Promise<ArchiveSource> {
    const file = await open(archive);
    return new ArchiveSource(file, (await file.stat()).size);
  }

  async size(): Promise<number> {
    return this.bytes;
  }

  /**
   * A buffer for `length` bytes from a position, or for as many as the archive has: most archives of a cohort are far smaller
   * than a chunk.
   */
  #room(position: number, length: number): Buffer {
    return Buffer.allocUnsafe(Math.max(0, Math.min(length, this.bytes - position)));
  }

  /** Reads `length` bytes from a position; fewer at the end of the file. */
  async read(position: number, length: number): Promise<Buffer> {
    const at = position - this.#window.start;
    if (at >= 0 && at + length <= this.#window.bytes.length) {
      return this.#window.bytes.subarray(at, at + length);
    }
    const bytes = await this.#filled(position, Math.max(length, chunkSize));
    this.#window = { start: position, bytes };
    return bytes.subarray(0, length);
  }

  async #filled(position: number, length: number): Promise<Buffer> {
    const buffer = this.#room(position, length);
    let filled = 0;
    while (filled < buffer.length) {
      const { bytesRead } = await this.file.read(buffer, filled, buffer.length - filled, position + filled);
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
    return buffer.subarray(0, filled);
  }

  /**
   * Streams the bytes from a position on. A damaged directory may name a position beyond the end of the file; the stream is then
   * empty.
   */
  stream(position: number, length = Number.MAX_SAFE_INTEGER): Readable {
    return Readable.from(this.#chunks(position, length), { objectMode: false, highWaterMark: chunkSize });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.file.close();
  }

  async *#chunks(position: number, length: number): AsyncGenerator<Buffer> {
    for (let done = 0; done < length; ) {
      const chunk = this.#room(position + done, Math.min(chunkSize, length - done));
      if (chunk.length === 0) return;
      let count: number;
      // Covers only the read: an error of the consumer is thrown at the `yield`.
      try {
        count = (await this.file.read(chunk, 0, chunk.length, position + done)).bytesRead;
      } catch (cause) {
        this.failure ??= cause;
        return;
      }
      if (count === 0) return;
      done += count;
      yield chunk.subarray(0, count);
    }
  }
}

const maxComment = 0xffff;
const endRecord = Buffer.from([0x50, 0x4b, 0x05, 0x06]);
const zip64Locator = 0x07064b50;
const zip64EndRecord = 0x06064b50;
const digitalSignature = 0x05054b50;
/** Signatures of the records that may lie between the directory and the end record. */
const endParts = [zip64EndRecord, digitalSignature];

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, Math.max(0, position));
  return buffer.subarray(0, bytesRead);
}

/**
 * The position of the end record in the last bytes of an archive: the last record whose comment ends exactly at the end of the
 * file, otherwise the last one whose comment fits. -1 if there is none.
 */
function findEndRecord(tail: Buffer): number {
  let fitting = -1;
  for (let from = tail.length - endSize; from >= 0; ) {
    const at = tail.lastIndexOf(endRecord, from);
    if (at < 0) break;
    const rest = tail.length - at - endSize - tail.readUInt16LE(at + 20);
    if (rest === 0) return at;
    if (rest > 0 && fitting < 0) fitting = at;
    from = at - 1;
  }
  return fitting;
}

/**
 * Checks that only records of the archive's end stand between its directory and the end record. Otherwise, in a file that holds
 * two archives, the end record of the second, whose offsets lead into the first, could be read as the end of the first.
 * @throws ArchiveError
 */
async function checkPlace(
  file: FileHandle,
  { start, length }: ArchiveEnd['directory'],
  endAt: number,
): Promise<void> {
  if (start + length === endAt) return;
  const next = await readAt(file, start + length, 4);
  const isEnd = start + length < endAt && next.length === 4 && endParts.includes(next.readUInt32LE());
  if (!isEnd) throw new ArchiveError('corrupt', 'its directory is not where its end says it is');
}

interface ArchiveEnd {
  /** Size of the archive in bytes. */
  readonly size: number;
  /** Number of entries that the archive states. */
  readonly entries: number;
  /** Position and length of the archive's directory, in bytes. */
  readonly directory: { readonly start: number; readonly length: number };
  /** Number of bytes from the start of the end record to the end of the file: how far from the end unzipper must search. */
  readonly tailSize: number;
}

/**
 * Reads an archive's end record: its stated number of entries, and the positions of its directory and of the record itself.
 * unzipper allocates memory for the stated number of entries before it reads the first one, so that number is checked beforehand,
 * and unzipper is made to use the same record.
 * @throws ArchiveError if there is no end record, or if it does not belong to the directory
 */
export async function archiveEnd(file: FileHandle): Promise<ArchiveEnd> {
  const { size } = await file.stat();
  const tailStart = Math.max(0, size - endSize - maxComment);
  const tail = await readAt(file, tailStart, size - tailStart);
  const at = findEndRecord(tail);
  if (at < 0) throw new ArchiveError('corrupt', 'it is not a zip archive');
  const tailSize = tail.length - at;
  const count = tail.readUInt16LE(at + 10);
  const start = tail.readUInt32LE(at + 16);
  const zip64 = count === 0xffff || start === 0xffffffff;
  if (!zip64 && tail.readUInt16LE(at + 4) !== 0xffff) {
    const directory = { start, length: tail.readUInt32LE(at + 12) };
    await checkPlace(file, directory, tailStart + at);
    return { size, entries: count, directory, tailSize };
  }

  const locator = await readAt(file, tailStart + at - locatorSize, locatorSize);
  if (locator.length < locatorSize || locator.readUInt32LE(0) !== zip64Locator) {
    throw new ArchiveError('corrupt', 'its zip64 locator is missing');
  }
  const recordAt = locator.readBigUInt64LE(8);
  const record = recordAt < BigInt(size) ? await readAt(file, Number(recordAt), end64Size) : Buffer.alloc(0);
  if (record.length < end64Size || record.readUInt32LE(0) !== zip64EndRecord) {
    throw new ArchiveError('corrupt', 'its zip64 end record is missing');
  }
  const [entries, length, directoryStart] = [32, 40, 48].map((place) =>
    Number(record.readBigUInt64LE(place)),
  ) as [number, number, number];
  const directory = { start: directoryStart, length };
  return { size, entries, directory, tailSize };
}

/** What an archive's directory says about one entry, under unzipper's names. */
export type ZipEntry = Pick<
  File,
  | 'path'
  | 'pathBuffer'
  | 'flags'
  | 'compressionMethod'
  | 'crc32'
  | 'compressedSize'
  | 'uncompressedSize'
  | 'fileNameLength'
  | 'extraFieldLength'
  | 'externalFileAttributes'
  | 'offsetToLocalFileHeader'
>;

/** Code page 437 from byte 0x80 on: the encoding of zip names that are not marked as UTF-8. */
const upper =
  'ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0';

/**
 * The name of an entry. Many programs write UTF-8 without marking it, so a name that is valid UTF-8 is decoded as UTF-8; any
 * other name is decoded as the format prescribes.
 */
export function entryName(entry: ZipEntry): string {
  const bytes = entry.pathBuffer;
  // unzipper gives an empty string instead of an empty buffer.
  if (bytes.length === 0) return '';
  if (isUtf8(bytes)) return entry.path;
  return Array.from(bytes, (byte) => (byte < 0x80 ? String.fromCharCode(byte) : upper[byte - 0x80])).join('');
}

/** Accepts options like unzipper's other `open` functions, although its types do not say so. */
type OpenCustom = (
  source: ArchiveSource,
  options: { readonly tailSize: number },
) => Promise<CentralDirectory>;

/** The error for an archive of which a part would silently not be extracted. */
const otherCount = (): ArchiveError =>
  new ArchiveError(
    'corrupt',
    "its end states another number of entries than its directory has; make it again, with 'zip -r' for instance",
  );

/**
 * The entries of an archive, as listed in its directory.
 * @throws ArchiveError if there are too many, if they overlap, or if the directory cannot be read completely
 */
export async function readDirectory(source: ArchiveSource, maxEntries: number): Promise<readonly ZipEntry[]> {
  const { entries: stated, tailSize, directory, size } = await archiveEnd(source.file);
  if (stated > maxEntries) {
    throw new ArchiveError('tooMany', `it has ${stated} entries, more than the ${maxEntries} allowed`);
  }
  let files: File[];
  try {
    ({ files } = await (unzipper.Open.custom as OpenCustom)(source, { tailSize }));
  } catch (cause) {
    throw source.failure ?? new ArchiveError('corrupt', 'its directory cannot be read', { cause });
  }
  const sizes = files.map(
    (file) => entrySize + file.fileNameLength + file.extraFieldLength + file.fileCommentLength,
  );
  if (sizes.reduce((sum, each) => sum + each, 0) < directory.length) throw otherCount();
  const packed = files.reduce((sum, { compressedSize }) => sum + compressedSize, 0);
  if (packed > size) {
    throw new ArchiveError(
      'corrupt',
      'its entries claim more bytes than the whole archive has: it is damaged, or a zip bomb',
    );
  }
  return files;
}

/** Signature of the local header in front of an entry's content, which repeats most of what the archive's directory says. */
const signature = 0x04034b50;

/** Length of that header in bytes, up to the name. */
const localHeaderSize = 30;

/**
 * The position in the archive at which an entry's content begins.
 * @throws ArchiveError if there is no local header at the position given in the directory
 */
export async function placeOfContent(source: ArchiveSource, entry: ZipEntry): Promise<number> {
  const { offsetToLocalFileHeader: offset } = entry;
  const header = await source.read(offset, localHeaderSize);
  if (header.length < localHeaderSize || header.readUInt32LE() !== signature) throw damagedEntry(entry.path);
  return offset + localHeaderSize + header.readUInt16LE(26) + header.readUInt16LE(28);
}

/** Whether an entry's content is deflated; otherwise it is stored unchanged. */
export const isDeflated = (entry: ZipEntry): boolean => entry.compressionMethod !== 0;
