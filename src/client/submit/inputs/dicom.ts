import { firstBytes } from '../../../files/first-bytes.js';

/** The position of the magic bytes, behind the preamble. */
const magicOffset = 128;
const magic = 'DICM';

/** Bytes that are read: the preamble, or the first two elements of a file without one. */
const span = 256;

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

/** What stands in values of text of these elements. */
const plainText = /^[A-Z0-9._ \\-]*\0?$/i;

const tagAt = (bytes: Buffer, at: number): number =>
  bytes.readUInt16LE(at) * 0x1_0000 + bytes.readUInt16LE(at + 2);

/**
 * Whether bytes are the beginning of a data set in little endian without a preamble, as old systems write them. Strict,
 * since a wrong yes would make one series of several volumes: the first element must be one of a few, have a value that
 * it can have, and be followed by a later element of the same group.
 */
function beginsDataSet(bytes: Buffer): boolean {
  if (bytes.length < 16) return false;
  const first = tagAt(bytes, 0);
  const known = firstElements.get(first);
  if (!known) return false;
  const isExplicit = bytes.toString('latin1', 4, 6) === known.vr;
  const length = isExplicit ? bytes.readUInt16LE(6) : bytes.readUInt32LE(4);
  const next = 8 + length;
  if (length % 2 === 1 || length < known.least || length > known.most || next + 8 > bytes.length)
    return false;
  if (known !== groupLength && !plainText.test(bytes.toString('latin1', 8, next))) return false;
  const second = tagAt(bytes, next);
  if (second <= first || second >> 16 !== first >> 16) return false;
  if (isExplicit) return /^[A-Z]{2}$/.test(bytes.toString('latin1', next + 4, next + 6));
  return bytes.readUInt32LE(next + 4) <= known.most + 1024;
}

/** Whether a file is of DICOM by how it begins. False also for what cannot be read: whoever sends it finds out. */
export function isDicom(file: string): boolean {
  const start = firstBytes(file, span);
  return start.toString('latin1', magicOffset, magicOffset + magic.length) === magic || beginsDataSet(start);
}
