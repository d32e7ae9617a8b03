import { hasLongLength, syntaxes } from './headers/dicom-walk.js';

/** A value: text, numbers, raw bytes, or the items of a sequence. Several texts are several values. */
export type DicomValue =
  | string
  | readonly string[]
  | number
  | readonly number[]
  | Uint8Array
  | readonly DicomElement[][];

/** An element to be written. The tag has eight hexadecimal digits. */
export type DicomElement = readonly [tag: string, vr: string, value: DicomValue];

/** Makes a sequence element of the given items. */
export const sequence = (tag: string, ...items: readonly DicomElement[][]): DicomElement => [
  tag,
  'SQ',
  items,
];

/** How a data set is encoded. With explicit VRs, numeric texts have at most 65,534 bytes. */
export type DicomSyntax = (typeof syntaxes)['explicit' | 'implicit' | 'bigEndian'];

/** Binary numbers by VR: bytes per number, and how to write one. */
const binary: Readonly<Record<string, readonly [bytes: number, put: (at: Buffer, value: number) => void]>> = {
  US: [2, (at, value) => at.writeUInt16LE(value)],
  SS: [2, (at, value) => at.writeInt16LE(value)],
  UL: [4, (at, value) => at.writeUInt32LE(value)],
  SL: [4, (at, value) => at.writeInt32LE(value)],
  FL: [4, (at, value) => at.writeFloatLE(value)],
  FD: [8, (at, value) => at.writeDoubleLE(value)],
};

/** A number as text of at most 16 characters, as exactly as possible (PS3.5, DS). */
export function decimalString(value: number): string {
  const exact = String(value);
  if (exact.length <= 16) return exact;
  for (let digits = 16; digits > 0; digits--) {
    const rounded = Number(value.toPrecision(digits));
    const text = [String(rounded), rounded.toExponential()].find(({ length }) => length <= 16);
    if (text) return text;
  }
  return '0';
}

const isItems = (value: DicomValue): value is readonly DicomElement[][] =>
  Array.isArray(value) && Array.isArray(value[0]);

function bytesOf(tag: string, vr: string, value: DicomValue, syntax: DicomSyntax): Buffer {
  const isBig = syntax === syntaxes.bigEndian;
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  if (vr === 'SQ') return Buffer.concat(isItems(value) ? value.map((item) => encodeItem(item, syntax)) : []);
  const values = (Array.isArray(value) ? value : [value]) as readonly (string | number)[];
  if (vr === 'AT') return Buffer.concat(values.map((each) => tagBytes(String(each), isBig)));
  const numbers = binary[vr];
  if (numbers) {
    const [size, put] = numbers;
    const bytes = Buffer.alloc(size * values.length);
    values.forEach((each, index) => {
      const at = bytes.subarray(index * size, (index + 1) * size);
      put(at, Number(each));
      if (isBig) at.reverse();
    });
    return bytes;
  }
  if (/^(?:O[BDFLVW]|UN|[SU]V)$/.test(vr)) throw new TypeError(`Element ${tag} needs bytes`);
  const isDecimal = vr === 'DS';
  return Buffer.from(
    values
      .map((each) => (isDecimal && typeof each === 'number' ? decimalString(each) : String(each)))
      .join('\\'),
  );
}

function tagBytes(tag: string, isBig: boolean): Buffer {
  const bytes = Buffer.from(tag, 'hex');
  return isBig ? bytes : bytes.swap16();
}

/** Encodes an item of a sequence. */
export function encodeItem(elements: readonly DicomElement[], syntax?: DicomSyntax): Buffer {
  const body = encodeElements(elements, syntax);
  return Buffer.concat([itemStart(body.length, syntax), body]);
}

/** The head of an item, or of a fragment of compressed pixels. */
export function itemStart(length: number, syntax?: DicomSyntax): Buffer {
  return plainStart('fffee000', length, syntax === syntaxes.bigEndian);
}

/** Encodes a tag and a four-byte length. */
function plainStart(tag: string, length: number, isBig: boolean): Buffer {
  const start = Buffer.alloc(8);
  tagBytes(tag, isBig).copy(start);
  if (isBig) start.writeUInt32BE(length, 4);
  else start.writeUInt32LE(length, 4);
  return start;
}

/** The head of an element. @throws RangeError for a length that its value representation cannot have */
export function elementStart(
  tag: string,
  vr: string,
  length: number,
  syntax: DicomSyntax = syntaxes.explicit,
): Buffer {
  const isBig = syntax === syntaxes.bigEndian;
  if (syntax === syntaxes.implicit) return plainStart(tag, length, isBig);
  const start = Buffer.allocUnsafe(hasLongLength(vr) ? 12 : 8).fill(0);
  tagBytes(tag, isBig).copy(start);
  start.write(vr, 4, 'latin1');
  if (!hasLongLength(vr) && length > 0xffff)
    throw new RangeError(`Element ${tag} (${vr}) of ${length} bytes is too long`);
  const [at, size] = hasLongLength(vr) ? [8, 4] : [6, 2];
  if (isBig) start.writeUIntBE(length, at, size);
  else start.writeUIntLE(length, at, size);
  return start;
}

/** Padding for values of odd length. */
const [zero, space] = [Uint8Array.of(0), Uint8Array.of(0x20)];

/** Encodes elements in the order of their tags. Text becomes UTF-8, which the data set has to declare. */
export function encodeElements(
  elements: readonly DicomElement[],
  syntax: DicomSyntax = syntaxes.explicit,
): Buffer {
  const inOrder = [...elements].sort(([a], [b]) => (a < b ? -1 : Number(a > b)));
  const parts: Uint8Array[] = [];
  for (const [tag, vr, value] of inOrder) {
    const bytes = bytesOf(tag, vr, value, syntax);
    const isOdd = bytes.length % 2 === 1;
    parts.push(elementStart(tag, vr, bytes.length + Number(isOdd), syntax), bytes);
    if (isOdd) parts.push(vr === 'UI' || /^O|^UN$/.test(vr) ? zero : space);
  }
  return Buffer.concat(parts);
}

/**
 * The beginning of a file: preamble and file meta information (PS3.10, 7.1). The data set follows in this transfer syntax.
 */
export function fileStart(facts: {
  readonly syntax?: string;
  readonly sopClass: string;
  readonly sopInstance: string;
}): Buffer {
  const meta = encodeElements([
    ['00020001', 'OB', Uint8Array.of(0, 1)],
    ['00020002', 'UI', facts.sopClass],
    ['00020003', 'UI', facts.sopInstance],
    ['00020010', 'UI', facts.syntax ?? syntaxes.explicit],
    ['00020012', 'UI', implementation],
    ['00020013', 'SH', 'REMOTE_APP'],
  ]);
  const length = encodeElements([['00020000', 'UL', meta.length]]);
  return Buffer.concat([Buffer.alloc(128), Buffer.from('DICM'), length, meta]);
}

/** The implementation class UID of this program. */
const implementation = '2.25.151350542836927880970726840531243697626';
