import { deflateRawSync } from 'node:zlib';

/** Makes DICOM files element by element, for cases that no scanner's files contain. */

/** A text, numbers of two bytes, the items of a sequence, or bytes. */
type Value = string | readonly number[] | readonly Element[][] | Buffer;
export interface Element {
  tag: number;
  form: string;
  value: Value;
}

const LONG_FORMS = ['OB', 'OW', 'OF', 'OD', 'OV', 'SQ', 'SV', 'UV'];
const EXPLICIT = '1.2.840.10008.1.2.1';
const IMPLICIT = '1.2.840.10008.1.2';
const BIG_ENDIAN = '1.2.840.10008.1.2.2';
const DEFLATED = '1.2.840.10008.1.2.1.99';
const JPEG_LOSSLESS = '1.2.840.10008.1.2.4.70';

export const element = (tag: number, form: string, value: Value): Element => ({ tag, form, value });
const ascending = (one: Element, other: Element) => one.tag - other.tag;

/** How elements are written. */
interface Way {
  isImplicit?: boolean;
  isBig?: boolean;
}

function encode({ tag, form, value }: Element, way: Way): Buffer {
  const { isImplicit = false, isBig = false } = way;
  const bytes = bytesOf(value, form, way);
  const isLong = isImplicit || LONG_FORMS.includes(form);
  const head = Buffer.alloc(!isImplicit && isLong ? 12 : 8);
  const short = (number: number, at: number) =>
    isBig ? head.writeUInt16BE(number, at) : head.writeUInt16LE(number, at);
  short(Math.floor(tag / 0x10000), 0);
  short(tag % 0x10000, 2);
  if (!isImplicit) head.write(form, 4, 'latin1');
  if (!isLong) short(bytes.length, 6);
  else if (isBig) head.writeUInt32BE(bytes.length, head.length - 4);
  else head.writeUInt32LE(bytes.length, head.length - 4);
  return Buffer.concat([head, bytes]);
}

function bytesOf(value: Value, form: string, way: Way): Buffer {
  if (Buffer.isBuffer(value)) return value;
  if (typeof value === 'string')
    return Buffer.from(value.length % 2 === 0 ? value : `${value}${form === 'UI' ? '\0' : ' '}`);
  if (form === 'SQ') {
    const items = (value as Element[][]).map((item) => {
      const bytes = Buffer.concat(item.toSorted(ascending).map((each) => encode(each, way)));
      const head = Buffer.from(way.isBig ? 'fffee00000000000' : 'feff00e000000000', 'hex');
      if (way.isBig) head.writeUInt32BE(bytes.length, 4);
      else head.writeUInt32LE(bytes.length, 4);
      return Buffer.concat([head, bytes]);
    });
    return Buffer.concat(items);
  }
  const shorts = Buffer.from(Uint16Array.from(value as number[]).buffer);
  return way.isBig ? shorts.swap16() : shorts;
}

export interface Slice {
  /** Of one slice, or of all frames. */
  pixels: Uint8Array | Int8Array | Uint16Array | Int16Array | Uint32Array | Int32Array;
  size: readonly [number, number];
  position?: readonly number[] | undefined;
  orientation?: readonly number[];
  spacing?: readonly number[] | undefined;
  series?: string;
  slope?: number;
  intercept?: number;
  frames?: readonly Frame[];
  /** Instead of those with the same tags, or beside them. */
  more?: readonly Element[];
}

export interface Frame {
  position?: readonly number[];
  slope?: number;
  /** Of its functional groups. */
  more?: readonly Element[];
}

export interface Encoding {
  hasPreamble?: boolean;
  hasMeta?: boolean;
  isImplicit?: boolean;
  /** Declares compressed pixel data, in one fragment. */
  isCompressed?: boolean;
  isBig?: boolean;
  isDeflated?: boolean;
  /** Compressed pixel data, in these parts, of a transfer syntax. */
  packed?: { syntax: string; fragments: readonly Buffer[]; table?: readonly number[] };
}

const decimals = (values: readonly number[]) => values.join('\\');
const orientationOf = ({ orientation = [1, 0, 0, 0, 1, 0] }: Slice) =>
  element(0x00200037, 'DS', decimals(orientation));

/** The elements of a file of one slice. */
function placeOfSlice(slice: Slice): Element[] {
  const { position, spacing = [2, 2] } = slice;
  return [
    ...(position ? [element(0x00200032, 'DS', decimals(position))] : []),
    ...(spacing.length > 0 ? [element(0x00280030, 'DS', decimals(spacing))] : []),
    orientationOf(slice),
    element(0x00281052, 'DS', String(slice.intercept ?? 0)),
    element(0x00281053, 'DS', String(slice.slope ?? 1)),
  ];
}

/** The elements of an enhanced file: what all frames share, and what each has of its own. */
function placesOfFrames(slice: Slice, frames: readonly Frame[]): Element[] {
  const measures = [
    element(0x00280030, 'DS', decimals(slice.spacing ?? [2, 2])),
    element(0x00180050, 'DS', '1'),
  ];
  const shared = [element(0x00289110, 'SQ', [measures]), element(0x00209116, 'SQ', [[orientationOf(slice)]])];
  const perFrame = frames.map(({ position, slope = 1, more = [] }) => [
    ...more,
    ...(position ? [element(0x00209113, 'SQ', [[element(0x00200032, 'DS', decimals(position))]])] : []),
    element(0x00289145, 'SQ', [[element(0x00281052, 'DS', '0'), element(0x00281053, 'DS', String(slope))]]),
  ]);
  return [
    element(0x00280008, 'IS', String(frames.length)),
    element(0x52009229, 'SQ', [shared]),
    element(0x52009230, 'SQ', perFrame),
  ];
}

export function dicomFile(slice: Slice, encoding: Encoding = {}): Buffer {
  const { hasPreamble = true, hasMeta = true, isImplicit = false, isCompressed = false } = encoding;
  const { isBig = false, isDeflated = false } = encoding;
  const mr = slice.frames ? '1.2.840.10008.5.1.4.1.1.4.1' : '1.2.840.10008.5.1.4.1.1.4';
  const { pixels } = slice;
  const bits = pixels.BYTES_PER_ELEMENT * 8;
  const isSigned =
    pixels instanceof Int8Array || pixels instanceof Int16Array || pixels instanceof Int32Array;
  const data = Buffer.from(pixels.slice().buffer);
  // Bytes are written as halves of words as well.
  if (isBig && bits <= 16) data.swap16();
  if (isBig && bits === 32) data.swap32();
  const packed = encoding.packed ?? (isCompressed ? { syntax: JPEG_LOSSLESS, fragments: [data] } : null);
  const plain = isImplicit ? IMPLICIT : isBig ? BIG_ENDIAN : isDeflated ? DEFLATED : EXPLICIT;
  const elements = [
    element(0x00080016, 'UI', mr),
    element(0x00080018, 'UI', `1.2.3.${slice.position?.join('').replaceAll(/[^0-9]/g, '') ?? 4}`),
    element(0x00080060, 'CS', 'MR'),
    element(0x0020000d, 'UI', '1.2.3'),
    element(0x0020000e, 'UI', slice.series ?? '1.2.3.4'),
    element(0x00280002, 'US', [1]),
    element(0x00280004, 'CS', 'MONOCHROME2'),
    element(0x00280010, 'US', [slice.size[1]]),
    element(0x00280011, 'US', [slice.size[0]]),
    element(0x00280100, 'US', [bits]),
    element(0x00280101, 'US', [bits]),
    element(0x00280102, 'US', [bits - 1]),
    element(0x00280103, 'US', [isSigned ? 1 : 0]),
    ...(slice.frames ? placesOfFrames(slice, slice.frames) : placeOfSlice(slice)),
    ...(packed ? [] : [element(0x7fe00010, 'OW', data)]),
    ...(slice.more ?? []),
  ];
  const byTag = new Map(elements.map((each) => [each.tag, each]));
  const all = [...byTag.values()].toSorted(ascending).map((each) => encode(each, { isImplicit, isBig }));
  const body = Buffer.concat([...all, ...(packed ? [encapsulated(packed.fragments, packed.table)] : [])]);
  const meta = Buffer.concat([
    encode(element(0x00020002, 'UI', mr), {}),
    encode(element(0x00020003, 'UI', '1.2.3.4.5'), {}),
    encode(element(0x00020010, 'UI', packed?.syntax ?? plain), {}),
  ]);
  const length = Buffer.from(Uint32Array.of(meta.length).buffer);
  return Buffer.concat([
    ...(hasPreamble ? [Buffer.alloc(128), Buffer.from('DICM')] : []),
    ...(hasMeta ? [encode(element(0x00020000, 'UL', length), {}), meta] : []),
    isDeflated ? deflateRawSync(body) : body,
  ]);
}

/** Compressed pixel data of undefined length: a table of offsets, the fragments, and the end. */
function encapsulated(fragments: readonly Buffer[], table: readonly number[] = []): Buffer {
  const item = (bytes: Buffer) => {
    const head = Buffer.from('feff00e000000000', 'hex');
    head.writeUInt32LE(bytes.length, 4);
    return Buffer.concat([head, bytes]);
  };
  return Buffer.concat([
    Buffer.from('e07f10004f420000ffffffff', 'hex'),
    item(Buffer.from(Uint32Array.from(table).buffer)),
    ...fragments.map(item),
    Buffer.from('feffdde000000000', 'hex'),
  ]);
}
