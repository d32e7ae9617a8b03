import { open } from 'node:fs/promises';
import { constants, inflateRawSync } from 'node:zlib';
import type { DataSet } from 'dicom-parser';
import { VolumeError } from './volume.js';

/** The position of the magic bytes, after the preamble. */
const magicOffset = 128;
const magic = 'DICM';

/** Transfer syntaxes without compression of the pixel data. */
export const syntaxes = {
  implicit: '1.2.840.10008.1.2',
  explicit: '1.2.840.10008.1.2.1',
  bigEndian: '1.2.840.10008.1.2.2',
  deflated: '1.2.840.10008.1.2.1.99',
} as const;

/** Lengths that the value of a first element may have. */
interface Known {
  readonly vr: string;
  readonly least: number;
  readonly most: number;
}

const uid: Known = { vr: 'UI', least: 10, most: 64 };
const date: Known = { vr: 'DA', least: 8, most: 8 };
const groupLength: Known = { vr: 'UL', least: 4, most: 4 };
const text: Known = { vr: 'CS', least: 2, most: 128 };

/** The elements that a data set without a preamble begins with, by group and element. */
const firstElements: ReadonlyMap<number, Known> = new Map([
  [0x0002_0000, groupLength],
  [0x0008_0000, groupLength],
  [0x0008_0001, groupLength],
  [0x0008_0005, text],
  [0x0008_0008, text],
  [0x0008_0012, date],
  [0x0008_0016, uid],
  [0x0008_0018, uid],
]);

/** Characters of the text values of these elements. */
const plainText = /^[A-Z0-9._ \\-]*\0?$/i;

/**
 * The transfer syntax of a data set without a preamble, as old systems write them; null for anything else. Strict, since a
 * wrong guess would make one series of several volumes: the first element must be one of a few, have a value that it can
 * have, and be followed by a later element of the same group.
 */
function syntaxOf(bytes: Buffer, isBig: boolean): string | null {
  if (bytes.length < 16) return null;
  const short = (at: number) => (isBig ? bytes.readUInt16BE(at) : bytes.readUInt16LE(at));
  const long = (at: number) => (isBig ? bytes.readUInt32BE(at) : bytes.readUInt32LE(at));
  const tagAt = (at: number) => short(at) * 0x1_0000 + short(at + 2);
  const first = tagAt(0);
  const known = firstElements.get(first);
  if (!known) return null;
  const isExplicit = bytes.toString('latin1', 4, 6) === known.vr;
  if (isBig && !isExplicit) return null;
  const length = isExplicit ? short(6) : long(4);
  const next = 8 + length;
  if (length % 2 === 1 || length < known.least || length > known.most || next + 8 > bytes.length) return null;
  if (known !== groupLength && !plainText.test(bytes.toString('latin1', 8, next))) return null;
  const second = tagAt(next);
  if (second <= first || second >> 16 !== first >> 16) return null;
  if (isExplicit && !/^[A-Z]{2}$/.test(bytes.toString('latin1', next + 4, next + 6))) return null;
  if (!isExplicit && long(next + 4) > known.most + 1024) return null;
  if (isBig) return syntaxes.bigEndian;
  return isExplicit ? syntaxes.explicit : syntaxes.implicit;
}

const hasMagic = (start: Buffer): boolean =>
  start.toString('latin1', magicOffset, magicOffset + magic.length) === magic;

/** Whether a file begins as DICOM does, with a preamble or without one. Needs its first 256 bytes. */
export const isDicomStart = (start: Buffer): boolean =>
  hasMagic(start) || syntaxOf(start, false) !== null || syntaxOf(start, true) !== null;

/** The last element that is parsed: what comes after it are pixels. */
const pixelData = 'x7fe00010';

/** Bytes of a data set whose beginning alone was read. */
const partly = { finishFlush: constants.Z_SYNC_FLUSH } as const;

/** Most bytes that a deflated data set may have. */
const maxInflated = 2 ** 31;

type Parser = typeof import('dicom-parser');

/** The elements before the pixels of a file. */
export interface ParsedDicom {
  readonly set: DataSet;
  /** Whether all of the given bytes, or all elements before the pixels, could be read. */
  readonly isSound: boolean;
  /** How far the offsets of `set` are ahead of those in the file. */
  readonly shift: number;
  /** Where deflated bytes begin in the file. Offsets behind it are those of the inflated bytes. */
  readonly deflatedFrom: number | null;
}

/**
 * Parses the elements of the beginning of a file, up to its pixels; null for a file that is not DICOM, or of which nothing
 * can be read.
 * @param bytes at least the first 256 of a longer file
 */
export function parseDicomStart(parser: Parser, bytes: Buffer): ParsedDicom | null {
  let [from, syntax, shift]: [Buffer, string | null, number] = [bytes, null, 0];
  if (!hasMagic(bytes)) {
    syntax = syntaxOf(bytes, false) ?? syntaxOf(bytes, true);
    if (syntax === null) return null;
    // The group that describes the file, without a preamble before it.
    if (bytes.readUInt16LE(0) === 2) {
      from = Buffer.concat([Buffer.alloc(magicOffset), Buffer.from(magic), bytes]);
      shift = from.length - bytes.length;
      syntax = null;
    }
  }
  let deflatedFrom: number | null = null;
  const inflater = (whole: Uint8Array, position: number): Uint8Array => {
    deflatedFrom = position - shift;
    const options = { ...partly, maxOutputLength: maxInflated };
    return Buffer.concat([whole.subarray(0, position), inflateRawSync(whole.subarray(position), options)]);
  };
  try {
    const options = {
      untilTag: pixelData,
      inflater,
      ...(syntax === null ? {} : { TransferSyntaxUID: syntax }),
    };
    const set = parser.parseDicom(from, options);
    return { set, isSound: true, shift, deflatedFrom };
  } catch (cause) {
    // What was read of a truncated header comes with the error.
    const set = (cause as { dataSet?: DataSet } | null)?.dataSet;
    return set ? { set, isSound: false, shift, deflatedFrom } : null;
  }
}

/** The bytes of a file, or of its data set where that is deflated. */
export interface ByteSource {
  readonly size: number;
  /** Reads bytes into memory of their own; fewer than were asked for at the end of the file. */
  read(offset: number, length: number): Promise<Buffer>;
  close(): Promise<void>;
}

const alone = (length: number): Buffer => Buffer.from(new ArrayBuffer(length));

/** Opens a file for reading parts of it. */
export async function openBytes(file: string, deflatedFrom: number | null): Promise<ByteSource> {
  const handle = await open(file);
  const { size } = await handle.stat();
  const read = async (offset: number, length: number): Promise<Buffer> => {
    const bytes = alone(Math.max(0, Math.min(length, size - offset)));
    let at = 0;
    while (at < bytes.length) {
      const { bytesRead } = await handle.read(bytes, at, bytes.length - at, offset + at);
      if (bytesRead === 0) break;
      at += bytesRead;
    }
    return at === bytes.length ? bytes : bytes.subarray(0, at);
  };
  if (deflatedFrom === null) return { size, read, close: () => handle.close() };
  try {
    const packed = await read(0, size);
    const body = inflateRawSync(packed.subarray(deflatedFrom), { maxOutputLength: maxInflated });
    const whole = Buffer.concat([packed.subarray(0, deflatedFrom), body]);
    return {
      size: whole.length,
      read: async (offset, length) => {
        const part = whole.subarray(offset, offset + length);
        const bytes = alone(part.length);
        bytes.set(part);
        return bytes;
      },
      close: async () => {},
    };
  } finally {
    await handle.close();
  }
}

/** Where the pixels of a file are. Offsets are those of its ByteSource. */
export interface PixelData {
  readonly vr: string;
  readonly offset: number;
  readonly length: number;
  /** The parts of compressed pixels, without the table of offsets before them; null if they are not compressed. */
  readonly fragments: readonly Fragment[] | null;
  /** Where each frame begins, counted from the first fragment; empty if the file does not say it. */
  readonly table: readonly number[];
}

export interface Fragment {
  /** Of its length; its bytes come 8 later. Counted as in `table`. */
  readonly start: number;
  readonly offset: number;
  readonly length: number;
}

/** A file whose elements before the pixels have been read. */
export interface DicomElements {
  readonly set: DataSet;
  readonly syntax: string;
  readonly deflatedFrom: number | null;
  readonly pixels: PixelData | null;
  /** Bytes that follow the pixels. */
  readonly excess: number;
}

/** How many bytes of a file are read at first; most headers are shorter. */
const firstPiece = 16 * 1024;
/** How many times as much is read if the header is longer: functional groups and private elements may take megabytes. */
const growth = 16;

/** Elements that hold pixels as floating-point numbers. */
const floatPixels = ['x7fe00008', 'x7fe00009'];

/**
 * Reads the elements of a file, and where its pixels are: these stay on disk.
 * @param name what messages call the file
 * @throws VolumeError for a file that is no DICOM file, is cut short or damaged
 */
export async function readElements(file: string, name: string): Promise<DicomElements> {
  const parser = await import('dicom-parser').then((module) => module.default);
  const source = await openBytes(file, null).catch((error: Error) => {
    throw new VolumeError(`${name} cannot be read (${error.message}).`);
  });
  try {
    let parsed: ParsedDicom | null = null;
    let isBare = true;
    for (let length = firstPiece; ; length *= growth) {
      const bytes = await source.read(0, length);
      if (bytes[0] === 0x1f && bytes[1] === 0x8b)
        throw new VolumeError(`${name} is packed with gzip: unpack it first (gunzip).`);
      isBare = !hasMagic(bytes);
      parsed = parseDicomStart(parser, bytes);
      const isAll = bytes.length === source.size;
      if (isAll || !isDicomStart(bytes) || parsed?.set.elements[pixelData]) break;
      if (parsed?.deflatedFrom != null) length = source.size;
    }
    if (!parsed?.isSound && isBare)
      throw new VolumeError(
        `${name} is no DICOM slice, or is cut short: take it out if it is none, else send it again from the original.`,
      );
    if (!parsed?.isSound) throw cutShort(name);
    if (parsed.deflatedFrom === null) return await locatePixels(source, name, parsed);
    const inflated = await openBytes(file, parsed.deflatedFrom).catch(() => {
      throw cutShort(name);
    });
    return await locatePixels(inflated, name, parsed);
  } finally {
    await source.close();
  }
}

/** The refusal of a file whose end is missing, or whose elements make no sense. */
export const cutShort = (name: string): VolumeError =>
  new VolumeError(`${name} is cut short or damaged: send it again from the original.`);

async function locatePixels(bytes: ByteSource, name: string, parsed: ParsedDicom): Promise<DicomElements> {
  const { set, shift, deflatedFrom } = parsed;
  const syntax = set.string('x00020010') ?? syntaxByParser(set);
  const tag = [pixelData, ...floatPixels].find((each) => set.elements[each]);
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

/** Files without a group that describes them have been parsed as what they look like. */
function syntaxByParser(set: DataSet): string {
  const isExplicit = Object.values(set.elements).some(({ vr }) => vr !== undefined);
  if (!isExplicit) return syntaxes.implicit;
  const isBig = set.byteArrayParser.readUint16(new Uint8Array([0, 1]), 0) === 1;
  return isBig ? syntaxes.bigEndian : syntaxes.explicit;
}

const itemTag = 0xe000_fffe;
const endTag = 0xe0dd_fffe;

/** Compressed pixels are items of any bytes, of which the first is a table of offsets, and an element that ends them. */
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
    if (table !== null) fragments.push({ start: offset - 8 - first, offset, length });
    else {
      const bytes = await source.read(offset, length);
      table = Array.from({ length: Math.floor(length / 4) }, (_, index) => bytes.readUInt32LE(index * 4));
      first = at;
    }
  }
}

/** The text of an element; null where it is not there or empty. */
export const wordsOf = (set: DataSet | undefined, tag: string): string | null =>
  set?.string(tag)?.replaceAll('\0', '').trim() || null;

/** The numbers of an element that has them as text, such as `0.5\0.5`; null where it is not there, or one is none. */
export function numbersOf(set: DataSet | undefined, tag: string): number[] | null {
  const numbers = wordsOf(set, tag)?.split('\\').map(Number.parseFloat);
  return numbers?.every(Number.isFinite) ? numbers : null;
}

/** The first number of an element that has it as text. */
export const numberOf = (set: DataSet | undefined, tag: string): number | null =>
  numbersOf(set, tag)?.[0] ?? null;

/** An item of a sequence; undefined where it is not there. */
export const itemOf = (set: DataSet | undefined, tag: string, index = 0): DataSet | undefined =>
  set?.elements[tag]?.items?.[index]?.dataSet;
