import { constants, gunzipSync, inflateRawSync } from 'node:zlib';
import type { DataSet } from 'dicom-parser';

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

/** The beginning of a file that is packed with gzip, unpacked. @throws zlib's error */
export const unzippedStart = (bytes: Buffer): Buffer => gunzipSync(bytes, partly);

/** Most bytes that a deflated data set may have. */
export const maxInflated = 2 ** 31;

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
