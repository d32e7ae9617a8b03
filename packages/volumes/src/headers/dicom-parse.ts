import { inflateRawSync } from 'node:zlib';
import parser, { type DataSet, type Element } from 'dicom-parser';
import { afterMagic, bareSyntaxOf, hasMagic, preamble, unpackedStart } from './dicom-start.js';
import {
  bytesInMemory,
  DamagedElements,
  elementsIn,
  encodingOf,
  maxElements,
  readMeta,
  syntaxes,
  undefinedLength,
} from './dicom-walk.js';

/** The last element that is parsed: everything after it is pixels. */
export const pixelData = 'x7fe00010';

/** Elements that hold pixels: integers, float32 and float64. */
export const pixelTags = [pixelData, 'x7fe00008', 'x7fe00009'] as const;

/** The elements before the pixels of a file. */
export interface ParsedDicom {
  readonly set: DataSet;
  /** Whether all of the given bytes, or all elements before the pixels, could be read. */
  readonly isSound: boolean;
  /** Difference between the offsets of `set` and those in the file. */
  readonly shift: number;
  /** Offset of the deflated bytes in the file; null if there are none. Offsets beyond it refer to the inflated bytes. */
  readonly deflatedFrom: number | null;
  /** Whether the file has more elements than the limit. */
  readonly isCut: boolean;
}

/** Maximum number of elements read to recognise a file. */
const maxToRecognise = 20_000;

export interface ParseOptions {
  /** The file with its deflated part inflated; by default, only its beginning is inflated. */
  readonly inflated?: Buffer;
  readonly limit?: number;
  /** The last element that is needed; by default the pixels. */
  readonly until?: string;
}

/** Whether the data set of a file is deflated. */
const isDeflated = (bytes: Buffer): boolean => bytes.subarray(0, 4096).includes(syntaxes.deflated);

/** What is known of a header before it is parsed. */
interface LookAhead {
  /** Offset at which the number of elements exceeds the limit; null if it does not. */
  readonly cut: number | null;
  /** The element that holds the pixels; null if it doesn't begin within these bytes. */
  readonly pixels: string | null;
  /** Offsets of VRs that the parser does not know (OV, SV, UV): it would read the lengths after them as short ones. */
  readonly unknownVrs: readonly number[];
}

/**
 * Counts the elements before they are parsed. The parser takes 10 microseconds and a kilobyte for each, so 16 MB of empty
 * ones would take minutes and more than a gigabyte.
 */
function lookAhead(bytes: Buffer, from: number, syntax: string, limit: number): LookAhead {
  const unknownVrs: number[] = [];
  let count = 0;
  try {
    for (const { at, tag, vr, depth } of elementsIn(bytesInMemory(bytes), from, encodingOf(syntax), false)) {
      count += 1;
      if (count > limit) return { cut: at, pixels: null, unknownVrs };
      const pixels = pixelTags.find((each) => each === `x${tag.toString(16).padStart(8, '0')}`);
      if (pixels && depth === 0) return { cut: null, pixels, unknownVrs };
      if (/^(OV|SV|UV)$/.test(vr)) unknownVrs.push(at + 4);
    }
  } catch (cause) {
    // The last element is cut off in its head.
    if (!(cause instanceof DamagedElements)) throw cause;
  }
  return { cut: null, pixels: null, unknownVrs };
}

/** Finds where the data set of a file begins, and its transfer syntax. @throws DamagedElements */
function bodyOf(bytes: Buffer): { readonly from: number; readonly syntax: string } {
  const from = hasMagic(bytes) ? afterMagic : 0;
  const { syntax, end } = readMeta(bytesInMemory(bytes), from);
  return { from: end, syntax: end > from ? syntax : (bareSyntaxOf(bytes) ?? syntax) };
}

/**
 * Whether the header is complete within these first bytes, continues, or has too many elements. Null if only parsing shows it.
 */
export function headerExtent(bytes: Buffer): 'whole' | 'goes on' | 'too many elements' | null {
  if (isDeflated(bytes)) return null;
  try {
    const { from, syntax } = bodyOf(bytes);
    const { cut, pixels } = lookAhead(bytes, from, syntax, maxElements);
    if (cut !== null) return 'too many elements';
    return pixels === null ? 'goes on' : 'whole';
  } catch (cause) {
    if (cause instanceof DamagedElements) return null;
    throw cause;
  }
}

/** Samples, rows, columns and bits of a value. */
const pixelCounts = [0x0028_0002, 0x0028_0010, 0x0028_0011, 0x0028_0100];

/**
 * Whether the first bytes of a file show that it has all its pixels. Otherwise, `faultOfVolume` tells.
 * @param end the last eight bytes of the file
 */
export function hasAllPixels(bytes: Buffer, size: number, end: Buffer): boolean {
  if (isDeflated(bytes)) return false;
  const counts = new Map<number, number>();
  try {
    const { from, syntax } = bodyOf(bytes);
    const encoding = encodingOf(syntax);
    for (const { tag, value, length, depth } of elementsIn(bytesInMemory(bytes), from, encoding, false)) {
      if (depth > 0) continue;
      if (pixelCounts.includes(tag) && value + 2 <= bytes.length)
        counts.set(tag, encoding.isBig ? bytes.readUInt16BE(value) : bytes.readUInt16LE(value));
      if (tag !== 0x7fe0_0010) continue;
      // Compressed pixels end with a delimiter.
      if (length === undefinedLength) return end.toString('hex') === 'feffdde000000000';
      const bits = pixelCounts.reduce((product, each) => product * (counts.get(each) ?? 1), 1);
      return value + length <= size && length * 8 >= bits;
    }
  } catch (cause) {
    if (!(cause instanceof DamagedElements)) throw cause;
  }
  return false;
}

/**
 * Parses the elements at the beginning of a file, up to its pixels; null if the file is not DICOM or nothing can be read.
 * @param bytes the first bytes of the file: at least 256, or all of a shorter file
 */
export function parseDicomStart(
  bytes: Buffer,
  { inflated, limit = maxToRecognise, until = pixelData }: ParseOptions = {},
): ParsedDicom | null {
  let [from, syntax, shift]: [Buffer, string | null, number] = [bytes, null, 0];
  if (!hasMagic(bytes)) {
    syntax = bareSyntaxOf(bytes);
    if (syntax === null) return null;
    // File meta information without a preamble before it.
    if (bytes.readUInt16LE(0) === 2) {
      from = Buffer.concat([preamble, bytes]);
      shift = preamble.length;
      syntax = null;
    }
  }
  let deflatedFrom: number | null = null;
  let isCut = false;
  let untilTag = until;
  /** Prepares the bytes for the parser; the data set begins at `position`. */
  const parsable = (whole: Buffer, position: number, ofBody: string): Buffer => {
    const { cut, pixels, unknownVrs } = lookAhead(whole, position, ofBody, limit);
    isCut = cut !== null;
    if (until === pixelData) untilTag = pixels ?? untilTag;
    const some = cut === null ? whole : whole.subarray(0, cut);
    if (unknownVrs.length === 0) return some;
    const known = Buffer.from(some);
    for (const at of unknownVrs) known.write('OB', at, 'latin1');
    return known;
  };
  const inflater = (whole: Uint8Array, position: number): Uint8Array => {
    deflatedFrom = position - shift;
    const body = inflated?.subarray(deflatedFrom) ?? unpackedStart(whole.subarray(position), inflateRawSync);
    return parsable(Buffer.concat([whole.subarray(0, position), body]), position, syntaxes.explicit);
  };
  try {
    let given = from;
    if (syntax !== null) given = parsable(from, 0, syntax);
    else if (!isDeflated(from)) {
      const meta = readMeta(bytesInMemory(from), afterMagic);
      given = parsable(from, meta.end, meta.syntax);
    }
    const options = {
      // The parser reads this when it reaches the data set, after the inflater has set it.
      get untilTag() {
        return untilTag;
      },
      inflater,
      ...(syntax === null ? {} : { TransferSyntaxUID: syntax }),
    };
    return { set: parser.parseDicom(given, options), isSound: !isCut, shift, deflatedFrom, isCut };
  } catch (cause) {
    // The parser's error carries what it read of a truncated header.
    const set = (cause as { dataSet?: DataSet } | null)?.dataSet;
    return set ? { set, isSound: false, shift, deflatedFrom, isCut } : null;
  }
}

/** The text of an element; null where it is absent or empty. */
export const wordsOf = (set: DataSet | undefined, tag: string): string | null =>
  set?.string(tag)?.replaceAll('\0', '').trim() || null;

/** A number as DICOM writes it as text (DS, IS): with a point, without units. */
const decimal = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** Converts a text to a number; NaN if it is not entirely a number, such as `1,25` or `2 mm`. */
const decimalOf = (text: string): number => (decimal.test(text.trim()) ? Number(text) : Number.NaN);

/** The numbers of a text element, such as `0.5\0.5`; null if it is absent or one of them is not a number. */
export function numbersOf(set: DataSet | undefined, tag: string): number[] | null {
  const numbers = wordsOf(set, tag)?.split('\\').map(decimalOf);
  return numbers?.every(Number.isFinite) ? numbers : null;
}

/** The first number of a text element. */
export const numberOf = (set: DataSet | undefined, tag: string): number | null =>
  numbersOf(set, tag)?.[0] ?? null;

/** An item of a sequence; undefined where it is absent. */
export const itemOf = (set: DataSet | undefined, tag: string, index = 0): DataSet | undefined =>
  set?.elements[tag]?.items?.[index]?.dataSet;

/**
 * The items of a private sequence in implicit encoding, which the parser does not parse; undefined if the element is not a
 * sequence.
 */
export function privateItems({ byteArray }: DataSet, element: Element): Element['items'] {
  const sequence = element.hadUndefinedLength ? { ...element, length: undefinedLength } : { ...element };
  const { ByteStream, littleEndianByteArrayParser, readSequenceItemsImplicit } = parser;
  try {
    readSequenceItemsImplicit(
      new ByteStream(littleEndianByteArrayParser, byteArray, element.dataOffset),
      sequence,
    );
    return sequence.items;
  } catch {
    return undefined;
  }
}
