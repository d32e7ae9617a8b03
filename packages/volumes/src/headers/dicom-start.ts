import { constants, gunzipSync, inflateRawSync } from 'node:zlib';
import type { DataSet } from 'dicom-parser';
import { syntaxes } from './dicom-syntaxes.js';
import { walkElements } from './dicom-walk.js';

/** The position of the magic bytes, after the preamble. */
const magicOffset = 128;
const magic = 'DICM';

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

export const hasMagic = (start: Buffer): boolean =>
  start.toString('latin1', magicOffset, magicOffset + magic.length) === magic;

/** Whether a file begins as DICOM does, with a preamble or without one. Needs its first 256 bytes. */
export const isDicomStart = (start: Buffer): boolean =>
  hasMagic(start) || syntaxOf(start, false) !== null || syntaxOf(start, true) !== null;

/** The last element that is parsed: what comes after it are pixels. */
export const pixelData = 'x7fe00010';

/** Packed bytes of which the beginning alone was read. */
const partly = { finishFlush: constants.Z_SYNC_FLUSH } as const;

/** Whether a file begins as one that is packed with gzip. */
export const isGzip = (bytes: Buffer): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b;

/** Most bytes that the beginning of a packed file is unpacked to: what files are recognised by comes first. */
const mostUnpacked = 8 << 20;

/** The beginning of packed bytes, unpacked as far as that is. @throws zlib's error */
function startOf(
  bytes: Uint8Array,
  unpack: (part: Uint8Array, options: { maxOutputLength: number }) => Buffer,
): Buffer {
  for (let part = bytes; ; part = part.subarray(0, part.length >> 2)) {
    try {
      return unpack(part, { ...partly, maxOutputLength: mostUnpacked });
    } catch (error) {
      // One byte becomes at most 1,032: a quarter of a quarter fits soon.
      const isTooLarge = (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
      if (!isTooLarge || part.length < 1024) throw error;
    }
  }
}

/** The beginning of a file that is packed with gzip, unpacked: at most 8 MiB of it. @throws zlib's error */
export const unzippedStart = (bytes: Buffer): Buffer => startOf(bytes, gunzipSync);

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
  /** Whether it has more elements than are read. */
  readonly isCut: boolean;
}

/** Most elements that are read where a file is only recognised, and where its image is. */
const elementsToRecognise = 20_000;
export const elementsToRead = 500_000;

/** Bytes that cannot hold so many elements that it matters. */
const fewBytes = 64 * 1024;

export interface ParseOptions {
  /** The data set with its deflated part inflated; otherwise its beginning is inflated. */
  readonly inflated?: Buffer;
  readonly mostElements?: number;
  /** The last element that is needed; by default the pixels. */
  readonly until?: string;
}

/** Whether a file is deflated behind the group that describes it. */
const isDeflated = (bytes: Buffer): boolean => bytes.subarray(0, 4096).includes(syntaxes.deflated);

/** What a header that is not deflated has, without parsing it; null for one that is deflated, or too short to matter. */
export function lookAhead(bytes: Buffer): ReturnType<typeof walkElements> | null {
  if (bytes.length <= fewBytes || isDeflated(bytes)) return null;
  const from = hasMagic(bytes) ? magicOffset + magic.length : 0;
  const isDescribed = from > 0 || bytes.readUInt16LE(0) === 2;
  const syntax = isDescribed ? null : (syntaxOf(bytes, false) ?? syntaxOf(bytes, true));
  return walkElements(bytes, from, syntax, elementsToRead);
}

/**
 * Parses the elements of the beginning of a file, up to its pixels; null for a file that is not DICOM, or of which nothing
 * can be read.
 * @param bytes at least the first 256 of a longer file
 */
export function parseDicomStart(
  parser: Parser,
  bytes: Buffer,
  { inflated, mostElements = elementsToRecognise, until = pixelData }: ParseOptions = {},
): ParsedDicom | null {
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
  let isCut = false;
  let untilTag = until;
  const within = (whole: Buffer, position: number, ofBody: string | null): Buffer => {
    if (whole.length <= fewBytes) return whole;
    const { cut, pixels } = walkElements(whole, position, ofBody, mostElements);
    isCut ||= cut !== null;
    if (until === pixelData) untilTag = pixels ?? untilTag;
    return cut === null ? whole : whole.subarray(0, cut);
  };
  const inflater = (whole: Uint8Array, position: number): Uint8Array => {
    deflatedFrom = position - shift;
    const body = inflated?.subarray(deflatedFrom) ?? startOf(whole.subarray(position), inflateRawSync);
    return within(Buffer.concat([whole.subarray(0, position), body]), position, syntaxes.explicit);
  };
  try {
    const isPlain = syntax !== null || !isDeflated(from);
    const given = isPlain ? within(from, syntax === null ? magicOffset + magic.length : 0, syntax) : from;
    const options = {
      // Read by the parser when it has come to the data set, which the inflater has then looked at.
      get untilTag() {
        return untilTag;
      },
      inflater,
      ...(syntax === null ? {} : { TransferSyntaxUID: syntax }),
    };
    const set = parser.parseDicom(given, options);
    return { set, isSound: !isCut, shift, deflatedFrom, isCut };
  } catch (cause) {
    // What was read of a truncated header comes with the error.
    const set = (cause as { dataSet?: DataSet } | null)?.dataSet;
    return set ? { set, isSound: false, shift, deflatedFrom, isCut } : null;
  }
}

/** The text of an element; null where it is not there or empty. */
export const wordsOf = (set: DataSet | undefined, tag: string): string | null =>
  set?.string(tag)?.replaceAll('\0', '').trim() || null;

/** A number as DICOM writes it in texts (DS, IS): with a point, without units. */
const decimal = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** The number of a text; NaN for one that is none as a whole, such as `1,25` or `2 mm`. */
const decimalOf = (text: string): number => (decimal.test(text.trim()) ? Number(text) : Number.NaN);

/** The numbers of an element that has them as text, such as `0.5\0.5`; null where it is not there, or one is none. */
export function numbersOf(set: DataSet | undefined, tag: string): number[] | null {
  const numbers = wordsOf(set, tag)?.split('\\').map(decimalOf);
  return numbers?.every(Number.isFinite) ? numbers : null;
}

/** The first number of an element that has it as text. */
export const numberOf = (set: DataSet | undefined, tag: string): number | null =>
  numbersOf(set, tag)?.[0] ?? null;

/** An item of a sequence; undefined where it is not there. */
export const itemOf = (set: DataSet | undefined, tag: string, index = 0): DataSet | undefined =>
  set?.elements[tag]?.items?.[index]?.dataSet;
