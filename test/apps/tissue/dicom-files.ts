/** Makes DICOM files element by element, for what no scanner's files show. */

/** A text, numbers of two bytes, the items of a sequence, or bytes. */
type Value = string | readonly number[] | readonly Element[][] | Buffer;
export interface Element {
  tag: number;
  form: string;
  value: Value;
}

const LONG_FORMS = ['OB', 'OW', 'SQ'];
const EXPLICIT = '1.2.840.10008.1.2.1';
const IMPLICIT = '1.2.840.10008.1.2';
const JPEG_LOSSLESS = '1.2.840.10008.1.2.4.70';

const element = (tag: number, form: string, value: Value): Element => ({ tag, form, value });
const ascending = (one: Element, other: Element) => one.tag - other.tag;

function encode({ tag, form, value }: Element, isImplicit: boolean): Buffer {
  const bytes = bytesOf(value, form, isImplicit);
  const head = Buffer.alloc(isImplicit ? 8 : LONG_FORMS.includes(form) ? 12 : 8);
  head.writeUInt16LE(Math.floor(tag / 0x10000), 0);
  head.writeUInt16LE(tag % 0x10000, 2);
  if (!isImplicit) head.write(form, 4, 'latin1');
  if (!isImplicit && !LONG_FORMS.includes(form)) head.writeUInt16LE(bytes.length, 6);
  else head.writeUInt32LE(bytes.length, head.length - 4);
  return Buffer.concat([head, bytes]);
}

function bytesOf(value: Value, form: string, isImplicit: boolean): Buffer {
  if (Buffer.isBuffer(value)) return value;
  if (typeof value === 'string')
    return Buffer.from(value.length % 2 === 0 ? value : `${value}${form === 'UI' ? '\0' : ' '}`);
  if (form === 'SQ') {
    const items = (value as Element[][]).map((item) => {
      const bytes = Buffer.concat(item.toSorted(ascending).map((each) => encode(each, isImplicit)));
      const head = Buffer.from([0xfe, 0xff, 0x00, 0xe0, 0, 0, 0, 0]);
      head.writeUInt32LE(bytes.length, 4);
      return Buffer.concat([head, bytes]);
    });
    return Buffer.concat(items);
  }
  return Buffer.from(Uint16Array.from(value as number[]).buffer);
}

export interface Slice {
  /** Of one slice, or of all frames. */
  pixels: Uint16Array | Int16Array;
  size: readonly [number, number];
  position?: readonly number[] | undefined;
  orientation?: readonly number[];
  spacing?: readonly number[] | undefined;
  series?: string;
  slope?: number;
  intercept?: number;
  frames?: readonly Frame[];
  more?: readonly Element[];
}

export interface Frame {
  position?: readonly number[];
  slope?: number;
}

export interface Encoding {
  hasPreamble?: boolean;
  hasMeta?: boolean;
  isImplicit?: boolean;
  /** Declares compressed pixel data, in one fragment. */
  isCompressed?: boolean;
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
  const perFrame = frames.map(({ position, slope = 1 }) => [
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
  const mr = slice.frames ? '1.2.840.10008.5.1.4.1.1.4.1' : '1.2.840.10008.5.1.4.1.1.4';
  const { pixels } = slice;
  const data = Buffer.from(pixels.buffer, pixels.byteOffset, pixels.byteLength);
  const syntax = isImplicit ? IMPLICIT : isCompressed ? JPEG_LOSSLESS : EXPLICIT;
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
    element(0x00280100, 'US', [16]),
    element(0x00280101, 'US', [16]),
    element(0x00280102, 'US', [15]),
    element(0x00280103, 'US', [pixels instanceof Int16Array ? 1 : 0]),
    ...(slice.frames ? placesOfFrames(slice, slice.frames) : placeOfSlice(slice)),
    ...(slice.more ?? []),
  ];
  const meta = Buffer.concat([
    encode(element(0x00020002, 'UI', mr), false),
    encode(element(0x00020003, 'UI', '1.2.3.4.5'), false),
    encode(element(0x00020010, 'UI', syntax), false),
  ]);
  const length = Buffer.from(Uint32Array.of(meta.length).buffer);
  return Buffer.concat([
    ...(hasPreamble ? [Buffer.alloc(128), Buffer.from('DICM')] : []),
    ...(hasMeta ? [encode(element(0x00020000, 'UL', length), false), meta] : []),
    ...elements.toSorted(ascending).map((each) => encode(each, isImplicit)),
    isCompressed ? fragment(data) : encode(element(0x7fe00010, 'OW', data), isImplicit),
  ]);
}

/** Compressed pixel data of undefined length: an empty table, one fragment, and the end. */
function fragment(data: Buffer): Buffer {
  const head = Buffer.from('e07f10004f420000fffffffffeff00e000000000feff00e000000000', 'hex');
  head.writeUInt32LE(data.length, head.length - 4);
  return Buffer.concat([head, data, Buffer.from('feffdde000000000', 'hex')]);
}
