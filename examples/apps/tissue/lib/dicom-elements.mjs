import { AppError } from './errors.mjs';

/** Value representations whose length takes four bytes, after two that are reserved (PS3.5, table 7.1-1). */
const LONG_FORMS = new Set(['OB', 'OD', 'OF', 'OL', 'OV', 'OW', 'SQ', 'SV', 'UC', 'UN', 'UR', 'UT', 'UV']);
const UNDEFINED_LENGTH = 0xffffffff;
/** The elements that this app knows, by group and number (PS3.6). */
export const TAG = {
  transferSyntax: 0x00020010,
  sliceThickness: 0x00180050,
  series: 0x0020000e,
  position: 0x00200032,
  orientation: 0x00200037,
  planePositions: 0x00209113,
  planeOrientations: 0x00209116,
  samplesPerPixel: 0x00280002,
  frames: 0x00280008,
  rows: 0x00280010,
  columns: 0x00280011,
  pixelSpacing: 0x00280030,
  bitsAllocated: 0x00280100,
  intercept: 0x00281052,
  slope: 0x00281053,
  pixelMeasures: 0x00289110,
  valueTransformations: 0x00289145,
  sharedGroups: 0x52009229,
  perFrameGroups: 0x52009230,
  pixelData: 0x7fe00010,
  itemEnd: 0xfffee00d,
  sequenceEnd: 0xfffee0dd,
};
/** Sequences with what this app reads: files without value representations do not say which elements are sequences. */
const SEQUENCES = new Set([
  TAG.planePositions,
  TAG.planeOrientations,
  TAG.pixelMeasures,
  TAG.valueTransformations,
  TAG.sharedGroups,
  TAG.perFrameGroups,
]);
const IMPLICIT = '1.2.840.10008.1.2';
/** Big endian and deflated: hardly any scanner writes them. */
const UNSUPPORTED = new Set(['1.2.840.10008.1.2.2', '1.2.840.10008.1.2.1.99']);

/**
 * The elements of a DICOM file up to the end of its pixel data: `elements` maps a tag to its bytes, which are a part of
 * `bytes`, or to the items of a sequence, each a map again. `pixels` says where the pixel data are, and whether compressed.
 * Many exporters leave out the preamble, and some the file meta information: such a file begins with its first element.
 */
export function readElements(bytes, name) {
  const hasPreamble = bytes.toString('latin1', 128, 132) === 'DICM';
  const start = hasPreamble ? 132 : 0;
  try {
    // A file without meta information has no transfer syntax: whether it has value representations can be seen.
    const meta = readDataSet(bytes, start, { isExplicit: true, group: 2 });
    const isExplicit = /^[A-Z]{2}$/.test(bytes.toString('latin1', meta.at + 4, meta.at + 6));
    const syntax = readText(meta.elements, TAG.transferSyntax) ?? (isExplicit ? `${IMPLICIT}.1` : IMPLICIT);
    if (UNSUPPORTED.has(syntax))
      throw new AppError(
        `${name} is stored big endian or deflated, which this app does not read: convert it to explicit little endian (dcmconv +te).`,
      );
    const { elements, pixels } = readDataSet(bytes, meta.at, { isExplicit: syntax !== IMPLICIT });
    return { elements, pixels, syntax, hasPreamble, hasMeta: meta.elements.size > 0 };
  } catch (error) {
    if (error instanceof AppError) throw error;
    // RangeError, of a read behind the end of the bytes, or of a length that cannot be.
    throw new AppError(
      hasPreamble
        ? `${name} is cut short or damaged: send it again from the original.`
        : `${name} is no DICOM slice, or is cut short: take it out if it is none, else send it again from the original.`,
    );
  }
}

/** Reads elements to the end of the bytes, of the item or of the group, or to the end of the pixel data. */
function readDataSet(bytes, from, { isExplicit, end = bytes.length, group, isItem = false }) {
  const elements = new Map();
  let at = from;
  while (at < end) {
    const tag = readTag(bytes, at);
    if (isItem && tag === TAG.itemEnd) return { elements, at: at + 8 };
    if (group !== undefined && Math.floor(tag / 0x10000) !== group) break;
    const { form, length, start } = readHead(bytes, at, tag, isExplicit);
    if (tag === TAG.pixelData) {
      const isPacked = length === UNDEFINED_LENGTH;
      at = isPacked ? readFragments(bytes, start) : start + length;
      if (at > end) throw new RangeError('the pixel data are cut');
      if (!isItem) return { elements, at, pixels: { length: at - start, end: at, isPacked } };
    } else if (form === 'SQ' || length === UNDEFINED_LENGTH) {
      // A sequence of unknown kind has no value representations inside (PS3.5, 6.2.2).
      const sequence = readItems(bytes, start, length, isExplicit && form === 'SQ');
      elements.set(tag, sequence.items);
      at = sequence.at;
    } else {
      at = start + length;
      if (at > end) throw new RangeError('an element is cut');
      elements.set(tag, bytes.subarray(start, at));
    }
  }
  return { elements, at };
}

function readTag(bytes, at) {
  return bytes.readUInt16LE(at) * 0x10000 + bytes.readUInt16LE(at + 2);
}

function readHead(bytes, at, tag, isExplicit) {
  if (!isExplicit) {
    const form = SEQUENCES.has(tag) ? 'SQ' : 'UN';
    return { form, length: bytes.readUInt32LE(at + 4), start: at + 8 };
  }
  const form = bytes.toString('latin1', at + 4, at + 6);
  if (!/^[A-Z]{2}$/.test(form)) throw new RangeError('no value representation');
  if (LONG_FORMS.has(form)) return { form, length: bytes.readUInt32LE(at + 8), start: at + 12 };
  return { form, length: bytes.readUInt16LE(at + 6), start: at + 8 };
}

function readItems(bytes, from, length, isExplicit) {
  const items = [];
  const end = length === UNDEFINED_LENGTH ? Infinity : from + length;
  let at = from;
  while (at < end) {
    if (readTag(bytes, at) === TAG.sequenceEnd) return { items, at: at + 8 };
    const itemLength = bytes.readUInt32LE(at + 4);
    const itemEnd = itemLength === UNDEFINED_LENGTH ? bytes.length : at + 8 + itemLength;
    if (itemEnd > bytes.length) throw new RangeError('an item is cut');
    const item = readDataSet(bytes, at + 8, { isExplicit, end: itemEnd, isItem: true });
    items.push(item.elements);
    at = item.at;
  }
  return { items, at };
}

/** Compressed pixel data are items of any bytes, closed by an element of their own. */
function readFragments(bytes, from) {
  let at = from;
  while (readTag(bytes, at) !== TAG.sequenceEnd) at += 8 + bytes.readUInt32LE(at + 4);
  return at + 8;
}

/** An item of a sequence, or undefined where it is not there. */
export function readItem(elements, tag, index = 0) {
  const items = elements?.get(tag);
  return Array.isArray(items) ? items[index] : undefined;
}

/** The text of an element, or undefined where it is not there or empty. */
export function readText(elements, tag) {
  const value = elements.get(tag);
  if (!Buffer.isBuffer(value)) return undefined;
  return value.toString('latin1').replaceAll('\0', '').trim() || undefined;
}

/** The numbers of an element that has them as text, such as 0.5\0.5; undefined where one is none. */
export function readNumbers(elements, tag) {
  const numbers = readText(elements, tag)?.split('\\').map(Number.parseFloat);
  return numbers?.every(Number.isFinite) ? numbers : undefined;
}

/** The first number of an element that has it in two bytes. */
export function readShort(elements, tag) {
  const value = elements.get(tag);
  return Buffer.isBuffer(value) && value.length >= 2 ? value.readUInt16LE(0) : undefined;
}
