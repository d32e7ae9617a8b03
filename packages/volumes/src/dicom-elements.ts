import { open } from 'node:fs/promises';
import { promisify } from 'node:util';
import { inflateRaw } from 'node:zlib';
import type { DataSet } from 'dicom-parser';
import { headerExtent, type ParsedDicom, parseDicomStart, pixelTags } from './headers/dicom-parse.js';
import { hasMagic, isDicomStart, isGzip } from './headers/dicom-start.js';
import { maxElements, syntaxes } from './headers/dicom-walk.js';
import { damaged, TruncatedVolume, VolumeError } from './volume.js';

/** The bytes of a file, with its data set inflated if it is deflated. */
export interface ByteSource extends AsyncDisposable {
  readonly size: number;
  /** Reads bytes into a new buffer; fewer at the end of the file. */
  read(offset: number, length: number): Promise<Buffer>;
}

/** A buffer outside Node's pool, so that typed arrays can begin at its start. */
const ownBuffer = (length: number): Buffer => Buffer.from(new ArrayBuffer(length));

/** Maximum number of bytes in one read: Node aborts at 2 GiB. */
const maxRead = 1 << 30;

/** Maximum size of a deflated data set, which is inflated into memory. */
const maxInflated = 1 << 29;

/** Opens a file to read parts of it. @param deflatedFrom offset of the deflated data set; null if it is not deflated */
export async function openBytes(file: string, deflatedFrom: number | null): Promise<ByteSource> {
  const handle = await open(file);
  const { size } = await handle.stat();
  const read = async (offset: number, length: number): Promise<Buffer> => {
    const bytes = ownBuffer(Math.max(0, Math.min(length, size - offset)));
    let at = 0;
    while (at < bytes.length) {
      const length = Math.min(maxRead, bytes.length - at);
      const { bytesRead } = await handle.read(bytes, at, length, offset + at);
      if (bytesRead === 0) break;
      at += bytesRead;
    }
    return at === bytes.length ? bytes : bytes.subarray(0, at);
  };
  if (deflatedFrom === null) return { size, read, [Symbol.asyncDispose]: () => handle.close() };
  await using _ = handle;
  const packed = await read(0, Math.min(size, maxInflated));
  const options = { maxOutputLength: maxInflated, chunkSize: 1 << 20 };
  const body = await promisify(inflateRaw)(packed.subarray(deflatedFrom), options);
  const whole = Buffer.concat([packed.subarray(0, deflatedFrom), body]);
  return {
    size: whole.length,
    read: async (offset, length) => {
      const part = whole.subarray(offset, offset + length);
      const bytes = ownBuffer(part.length);
      bytes.set(part);
      return bytes;
    },
    [Symbol.asyncDispose]: async () => {},
  };
}

/** Where the pixels of a file are. Offsets are those of the ByteSource. */
export interface PixelData {
  readonly vr: string;
  readonly offset: number;
  readonly length: number;
  /** The fragments of compressed pixels, without the offset table; null if they are not compressed. */
  readonly fragments: readonly Fragment[] | null;
  /** The Basic Offset Table: the offset of each frame from the first fragment. May be empty. */
  readonly table: readonly number[];
}

export interface Fragment {
  /** Offset of its item, counted as in `table`. */
  readonly start: number;
  readonly offset: number;
  readonly length: number;
}

/** The elements of a file before its pixels. */
export interface DicomElements {
  readonly set: DataSet;
  readonly syntax: string;
  readonly deflatedFrom: number | null;
  readonly pixels: PixelData | null;
  /** Number of bytes after the pixels. */
  readonly excess: number;
}

/** Number of bytes read first, and the factor by which it grows if the header is longer. */
const [firstPiece, growth] = [16 * 1024, 16];

/** Maximum length of a header, in bytes. Even 100,000 frames need less. */
const maxHeader = 128 << 20;

/**
 * Reads the elements of a file, and finds its pixels, which stay on disk.
 * @param name what messages call the file
 * @throws VolumeError for a file that is not DICOM, or is cut short or damaged
 */
export async function readElements(file: string, name: string): Promise<DicomElements> {
  await using source = await openBytes(file, null).catch((error: Error) => {
    throw new VolumeError(`${name} cannot be read (${error.message}).`);
  });
  const { parsed, isBare } = await parseHeader(source, name);
  if (!parsed?.isSound && isBare)
    throw new VolumeError(
      `${name} is not a DICOM slice, or is cut short: remove it, or copy it again from the original.`,
    );
  if (!parsed?.isSound && parsed?.deflatedFrom == null) throw cutShort(name);
  if (parsed.deflatedFrom === null) return await locatePixels(source, name, parsed);
  const inflated = await openBytes(file, parsed.deflatedFrom).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ERR_BUFFER_TOO_LARGE') throw cutShort(name);
    throw new VolumeError(
      `${name} is deflated and becomes more than ${maxInflated >> 20} MiB, which is not read: write it again without that compression.`,
    );
  });
  const head = await source.read(0, 1 << 20);
  const whole = await inflated.read(0, Math.min(inflated.size, maxHeader));
  const again = parseDicomStart(head, { inflated: whole, limit: maxElements });
  if (again?.isCut) throw tooMany(name);
  if (!again?.isSound) throw cutShort(name);
  return await locatePixels(inflated, name, again);
}

/** Parses the beginning of a file, as far as its pixels. */
async function parseHeader(
  source: ByteSource,
  name: string,
): Promise<{ readonly parsed: ParsedDicom | null; readonly isBare: boolean }> {
  for (let length = firstPiece; ; length = Math.min(length * growth, maxHeader)) {
    const bytes = await source.read(0, length);
    if (isGzip(bytes)) throw new VolumeError(`${name} is packed with gzip: unpack it first (gunzip).`);
    const isBare = !hasMagic(bytes);
    // Parsing is slow, so an incomplete header is not parsed.
    const isPartial = bytes.length < source.size && length < maxHeader;
    const extent = isDicomStart(bytes) ? headerExtent(bytes) : null;
    if (extent === 'too many elements') throw tooMany(name);
    if (extent === 'goes on' && isPartial) continue;
    const parsed = parseDicomStart(bytes, { limit: maxElements });
    if (parsed?.isCut) throw tooMany(name);
    const isFound = parsed && pixelTags.some((tag) => parsed.set.elements[tag] !== undefined);
    const isDone = bytes.length === source.size || !isDicomStart(bytes) || isFound;
    if (isDone || parsed?.deflatedFrom != null) return { parsed, isBare };
    if (length === maxHeader)
      throw damaged(`${name} has no image within its first ${maxHeader >> 20} MiB: it is damaged.`);
  }
}

const tooMany = (name: string): VolumeError =>
  new VolumeError(
    `${name} has more than ${maxElements} elements before its pixels, which are not read: convert it to NIfTI.`,
  );

/** The error for a file that ends early, or whose elements are inconsistent. */
export const cutShort = (name: string): VolumeError =>
  new TruncatedVolume(`${name} is cut short or damaged: copy it again from the original.`);

async function locatePixels(bytes: ByteSource, name: string, parsed: ParsedDicom): Promise<DicomElements> {
  const { set, shift, deflatedFrom } = parsed;
  // The parser treats an empty transfer syntax like this one.
  const syntax = set.string('x00020010') ?? syntaxes.explicit;
  const tag = pixelTags.find((each) => set.elements[each]);
  const element = tag === undefined ? undefined : set.elements[tag];
  if (!element) return { set, syntax, deflatedFrom, pixels: null, excess: 0 };
  const offset = element.dataOffset - shift;
  const vr = element.vr ?? 'OW';
  if (element.length !== 0xffff_ffff) {
    const end = offset + element.length;
    if (end > bytes.size) throw cutShort(name);
    const pixels = { vr, offset, length: element.length, fragments: null, table: [] };
    return { set, syntax, deflatedFrom, pixels, excess: bytes.size - end };
  }
  const { table, fragments, end } = await readFragments(bytes, offset, name);
  const pixels = { vr, offset, length: end - offset, fragments, table };
  return { set, syntax, deflatedFrom, pixels, excess: bytes.size - end };
}

const itemTag = 0xe000_fffe;
const endTag = 0xe0dd_fffe;

/** Maximum number of fragments, and of bytes in the offset table: enough for 100,000 frames. */
const [maxFragments, maxTable] = [200_000, 4 << 20];

/** Reads the fragments of compressed pixels: the first item is the offset table, and a delimiter ends them (PS3.5, A.4). */
async function readFragments(
  source: ByteSource,
  from: number,
  name: string,
): Promise<{ table: number[]; fragments: Fragment[]; end: number }> {
  const fragments: Fragment[] = [];
  let table: number[] | null = null;
  let at = from;
  let first = from;
  for (;;) {
    const head = await source.read(at, 8);
    if (head.length < 8) throw cutShort(name);
    const [tag, length] = [head.readUInt32LE(0), head.readUInt32LE(4)];
    const offset = at + 8;
    if (tag === endTag) return { table: table ?? [], fragments, end: offset };
    if (tag !== itemTag || offset + length > source.size) throw cutShort(name);
    at = offset + length;
    if (fragments.length === maxFragments || (table === null && length > maxTable))
      throw new VolumeError(
        `${name} has its pixels in more parts than are read (${maxFragments}): decompress it, for example with gdcmconv --raw.`,
      );
    if (table !== null) fragments.push({ start: offset - 8 - first, offset, length });
    else {
      const bytes = await source.read(offset, length);
      table = Array.from({ length: Math.floor(length / 4) }, (_, index) => bytes.readUInt32LE(index * 4));
      first = at;
    }
  }
}
