import { once } from 'node:events';
import type { Stats } from 'node:fs';
import { PassThrough, Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { crc32, createDeflateRaw } from 'node:zlib';
import { Archiver, type EntryData } from 'archiver';

/** Bytes that may be buffered. */
const bufferSize = 1 << 20;
/** Headers and small files are collected up to this many bytes, because each write costs a turn of the thread pool. */
const gatheredSize = 64 * 1024;

const permissions = 0o777;
const stored = 0;
const deflated = 8;
/** General purpose flags: names are UTF-8; sizes follow the content. */
const utf8Flag = 0x800;
const descriptorFlag = 0x8;
/** The largest value of a field of two or four bytes: the real value is in a zip64 record. */
const elsewhere16 = 0xffff;
const elsewhere = 0xffffffff;
/** Files from this size on are announced with zip64, since deflating may enlarge them a little. */
const zip64Size = 0xff000000;
const versionPlain = 20;
const versionZip64 = 45;
/** Made by Unix, so the permissions in an entry are Unix permissions. */
const madeOnUnix = 3 << 8;

/** The contents of an entry's header. */
interface Entry {
  /** A directory's ends with a slash. */
  readonly name: string;
  readonly stats: Stats;
  readonly method: number;
  /** Whether its content is streamed, so that sizes and checksum follow it. */
  readonly isStreamed: boolean;
  /** Size of the content in the archive, and its original size, in bytes. */
  packed: number;
  size: number;
  crc: number;
}

const isLarge = ({ isStreamed, stats }: Entry): boolean => isStreamed && stats.size >= zip64Size;

/** Date and time in the zip format: in steps of two seconds, from 1980 to 2107. */
function dosTime(time: Date): number {
  const year = Math.min(Math.max(time.getUTCFullYear(), 1980), 2107) - 1980;
  const date = (year << 9) | ((time.getUTCMonth() + 1) << 5) | time.getUTCDate();
  const clock = (time.getUTCHours() << 11) | (time.getUTCMinutes() << 5) | (time.getUTCSeconds() >> 1);
  return ((date << 16) | clock) >>> 0;
}

/** Joins numbers, each given with its size in bytes: 2, 4 or 8. */
function fields(...values: readonly (readonly [bytes: number, value: number])[]): Buffer {
  const buffer = Buffer.alloc(values.reduce((sum, [bytes]) => sum + bytes, 0));
  let at = 0;
  for (const [bytes, value] of values) {
    if (bytes === 8) buffer.writeBigUInt64LE(BigInt(value), at);
    else buffer.writeUIntLE(value, at, bytes);
    at += bytes;
  }
  return buffer;
}

/** A zip64 extra field with these values; empty without any. */
const zip64Field = (values: readonly number[]): Buffer =>
  values.length === 0
    ? Buffer.alloc(0)
    : fields([2, 1], [2, values.length * 8], ...values.map((value) => [8, value] as const));

/** The fields that the local header and the directory entry share, up to the length of the extra field. */
function commonHeader(
  entry: Entry,
  name: Buffer,
  sizes: Pick<Entry, 'crc' | 'packed' | 'size'>,
  extra: Buffer,
) {
  const isZip64 = extra.length > 0;
  const flags = utf8Flag | (entry.isStreamed ? descriptorFlag : 0);
  return [
    [2, isZip64 ? versionZip64 : versionPlain],
    [2, flags],
    [2, entry.method],
    [4, dosTime(entry.stats.mtime)],
    [4, sizes.crc],
    [4, Math.min(sizes.packed, elsewhere)],
    [4, Math.min(sizes.size, elsewhere)],
    [2, name.length],
    [2, extra.length],
  ] as const;
}

function localHeader(entry: Entry): Buffer {
  const name = Buffer.from(entry.name);
  const unknown = isLarge(entry) ? elsewhere : 0;
  const sizes = entry.isStreamed ? { crc: 0, packed: unknown, size: unknown } : entry;
  const extra = zip64Field(isLarge(entry) ? [0, 0] : []);
  return Buffer.concat([fields([4, 0x04034b50], ...commonHeader(entry, name, sizes, extra)), name, extra]);
}

/** Checksum and sizes, written after streamed content. */
function descriptor(entry: Entry): Buffer {
  const bytes = isLarge(entry) ? 8 : 4;
  return fields([4, 0x08074b50], [4, entry.crc], [bytes, entry.packed], [bytes, entry.size]);
}

function directoryHeader(entry: Entry, offset: number): Buffer {
  const name = Buffer.from(entry.name);
  const extra = zip64Field([entry.size, entry.packed, offset].filter((value) => value >= elsewhere));
  const isDirectory = entry.name.endsWith('/');
  const type = isDirectory ? 0o040000 : 0o100000;
  const attributes = (((type | (entry.stats.mode & permissions)) << 16) | (isDirectory ? 0x10 : 0)) >>> 0;
  return Buffer.concat([
    fields([4, 0x02014b50], [2, madeOnUnix | versionZip64], ...commonHeader(entry, name, entry, extra)),
    // No comment, the first disk, no internal attributes.
    fields([2, 0], [2, 0], [2, 0], [4, attributes], [4, Math.min(offset, elsewhere)]),
    name,
    extra,
  ]);
}

/** The records that end an archive, given the number of entries, and the start and length of the directory. */
function archiveEnd(entries: number, start: number, length: number): Buffer {
  // Readers treat the largest values as the sign of zip64.
  const isZip64 = entries >= elsewhere16 || Math.max(start, length) >= elsewhere;
  const zip64 = fields(
    ...([
      [4, 0x06064b50],
      [8, 44],
      [2, madeOnUnix | versionZip64],
      [2, versionZip64],
      [4, 0],
      [4, 0],
    ] as const),
    ...[entries, entries, length, start].map((value) => [8, value] as const),
    ...([
      [4, 0x07064b50],
      [4, 0],
      [8, start + length],
      [4, 1],
    ] as const),
  );
  const count = Math.min(entries, elsewhere16);
  const end = fields(
    ...([
      [4, 0x06054b50],
      [2, 0],
      [2, 0],
      [2, count],
      [2, count],
    ] as const),
    ...([
      [4, Math.min(length, elsewhere)],
      [4, Math.min(start, elsewhere)],
      [2, 0],
    ] as const),
  );
  return isZip64 ? Buffer.concat([zip64, end]) : end;
}

/** Passes bytes through, and counts and checksums them. */
async function* measured(source: AsyncIterable<Buffer>, entry: Entry): AsyncGenerator<Buffer> {
  for await (const piece of source) {
    entry.size += piece.length;
    entry.crc = crc32(piece, entry.crc);
    yield piece;
  }
}

/**
 * The zip format for archiver, in place of its own, which changes names (`a\b` becomes `a/b`, and `T1:mask.nii` and `T2:mask.nii`
 * both become `mask.nii`) and keeps 10 KB of memory for each file: a result of 300,000 files took 3 GB.
 */
class ZipFormat {
  readonly #out = new PassThrough({ highWaterMark: bufferSize });
  readonly on = this.#out.on.bind(this.#out);
  readonly pipe = this.#out.pipe.bind(this.#out);
  readonly unpipe = this.#out.unpipe.bind(this.#out);
  /** Headers of the directory, which is written last. */
  readonly #directory: Buffer[] = [];
  #offset = 0;
  #gathered: Buffer[] = [];
  #gatheredBytes = 0;

  /** @param stop aborted when the sink has failed */
  constructor(private readonly stop: AbortSignal) {}

  /** Called by archiver for one entry after the other. */
  append(source: Buffer | Readable, { entry }: { entry: Entry }, done: (cause?: unknown) => void): void {
    this.#append(source, entry).then(() => done(), done);
  }

  /** Called by archiver after the last entry. */
  finalize(): void {
    this.#finish().catch((cause) => this.#out.destroy(cause));
  }

  async #append(source: Buffer | Readable, entry: Entry): Promise<void> {
    const offset = this.#offset;
    await this.#write(localHeader(entry));
    const start = this.#offset;
    if (Buffer.isBuffer(source)) await this.#write(source);
    else await this.#writeStream(source, entry);
    entry.packed = this.#offset - start;
    if (entry.isStreamed) await this.#write(descriptor(entry));
    this.#directory.push(directoryHeader(entry, offset));
  }

  async #writeStream(source: Readable, entry: Entry): Promise<void> {
    const content = measured(source, entry);
    if (entry.method === stored) {
      for await (const piece of content) await this.#write(piece);
      return;
    }
    const deflater = createDeflateRaw({ level: 1, chunkSize: bufferSize });
    const fed = pipeline(content, deflater);
    for await (const piece of deflater) await this.#write(piece);
    await fed;
  }

  async #finish(): Promise<void> {
    const start = this.#offset;
    for (const header of this.#directory) await this.#write(header);
    await this.#flush();
    this.#out.end(archiveEnd(this.#directory.length, start, this.#offset - start));
  }

  async #write(bytes: Buffer): Promise<void> {
    this.#offset += bytes.length;
    if (bytes.length >= gatheredSize) {
      await this.#flush();
      await this.#send(bytes);
      return;
    }
    this.#gathered.push(bytes);
    this.#gatheredBytes += bytes.length;
    if (this.#gatheredBytes >= gatheredSize) await this.#flush();
  }

  async #flush(): Promise<void> {
    const bytes = Buffer.concat(this.#gathered);
    this.#gathered = [];
    this.#gatheredBytes = 0;
    if (bytes.length > 0) await this.#send(bytes);
  }

  async #send(bytes: Buffer): Promise<void> {
    if (!this.#out.write(bytes)) await once(this.#out, 'drain', { signal: this.stop });
  }
}

/** An archive of archiver in our format, installed as archiver's own formats install theirs. */
class ZipArchive extends Archiver {
  constructor(format: ZipFormat) {
    super({ highWaterMark: bufferSize });
    const members = { _format: 'zip', _module: format, _supportsDirectory: true };
    (Object.assign(this, members) as unknown as { _modulePipe(): void })._modulePipe();
  }
}

/** Writes a zip archive to a sink, entry by entry. An entry begins once the sink has taken most of the previous one. */
export class ZipWriter {
  readonly #failed = new AbortController();
  readonly #zip = new ZipArchive(new ZipFormat(this.#failed.signal));
  readonly #written: Promise<void>;

  constructor(sink: Writable, signal: AbortSignal | undefined) {
    this.#written = pipeline(this.#zip, sink, signal ? { signal } : {});
    this.#written.catch((cause) => this.#failed.abort(cause));
  }

  /**
   * Adds a file that is in memory, or a directory: no bytes, and a name that ends with a slash.
   * @param inflated original size and checksum, for bytes that are already deflated
   */
  async addBytes(
    name: string,
    stats: Stats,
    bytes: Buffer,
    inflated?: { readonly size: number; readonly crc: number },
  ): Promise<void> {
    const method = inflated ? deflated : stored;
    const { size, crc } = inflated ?? { size: bytes.length, crc: crc32(bytes) };
    await this.#add({ name, stats, method, isStreamed: false, packed: bytes.length, size, crc }, bytes);
  }

  /** Adds a file while it is read. The source must not throw: part of the entry is already written. */
  async addStream(
    name: string,
    stats: Stats,
    source: AsyncIterable<Buffer>,
    deflate: boolean,
  ): Promise<void> {
    const content = Readable.from(source, { objectMode: false, highWaterMark: bufferSize });
    content.on('error', (cause) => this.#zip.destroy(cause));
    const method = deflate ? deflated : stored;
    try {
      await this.#add({ name, stats, method, isStreamed: true, packed: 0, size: 0, crc: 0 }, content);
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

  async #add(entry: Entry, source: Buffer | Readable): Promise<void> {
    const added = once(this.#zip, 'entry', { signal: this.#failed.signal });
    // archiver requires a name here; the format uses the entry's own name, which archiver has not changed.
    this.#zip.append(source, { name: 'entry', entry } as EntryData);
    await added;
  }
}
