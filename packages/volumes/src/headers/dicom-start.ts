import type { FileHandle } from 'node:fs/promises';
import { constants, gunzipSync } from 'node:zlib';
import { syntaxes } from './dicom-walk.js';

/** The magic bytes follow a preamble (PS3.10, 7.1). */
const magic = { offset: 128, text: 'DICM' } as const;

/** Where the elements begin in a file that has a preamble. */
export const afterMagic = magic.offset + magic.text.length;

export const hasMagic = (start: Buffer): boolean =>
  start.toString('latin1', magic.offset, afterMagic) === magic.text;

/** An empty preamble, with the magic bytes. */
export const preamble = Buffer.concat([Buffer.alloc(magic.offset), Buffer.from(magic.text)]);

/** The possible first elements of a data set without a preamble, and the minimum and maximum length of their values. */
const firstElements: Readonly<Record<number, readonly [vr: string, min: number, max: number]>> = {
  131072: ['UL', 4, 4],
  524288: ['UL', 4, 4],
  524289: ['UL', 4, 4],
  524293: ['CS', 2, 128],
  524296: ['CS', 2, 128],
  524306: ['DA', 8, 8],
  524310: ['UI', 10, 64],
  524312: ['UI', 10, 64],
};

/** The characters in the values of these elements. */
const plainText = /^[A-Z0-9._ \\-]*\0?$/i;

function bareSyntaxAs(bytes: Buffer, isBig: boolean): string | null {
  if (bytes.length < 16) return null;
  const short = (at: number) => (isBig ? bytes.readUInt16BE(at) : bytes.readUInt16LE(at));
  const long = (at: number) => (isBig ? bytes.readUInt32BE(at) : bytes.readUInt32LE(at));
  const tagAt = (at: number) => short(at) * 0x1_0000 + short(at + 2);
  const first = tagAt(0);
  const known = firstElements[first];
  if (!known) return null;
  const [vr, min, max] = known;
  const isExplicit = bytes.toString('latin1', 4, 6) === vr;
  if (isBig && !isExplicit) return null;
  const length = isExplicit ? short(6) : long(4);
  const next = 8 + length;
  if (length % 2 === 1 || length < min || length > max) return null;
  if (next + 8 > bytes.length) return null;
  if (vr !== 'UL' && !plainText.test(bytes.toString('latin1', 8, next))) return null;
  const second = tagAt(next);
  if (second <= first || second >> 16 !== first >> 16) return null;
  if (isExplicit && !/^[A-Z]{2}$/.test(bytes.toString('latin1', next + 4, next + 6))) return null;
  if (!isExplicit && long(next + 4) > max + 1024) return null;
  if (isBig) return syntaxes.bigEndian;
  return isExplicit ? syntaxes.explicit : syntaxes.implicit;
}

/**
 * The transfer syntax of a data set without a preamble, as old systems write it; null for anything else. The test is strict,
 * because wrongly recognised files would turn several volumes into one series: the first element must be one of a few, have a
 * plausible value, and be followed by a later element of the same group.
 */
export const bareSyntaxOf = (bytes: Buffer): string | null =>
  bareSyntaxAs(bytes, false) ?? bareSyntaxAs(bytes, true);

/** Whether a file begins like DICOM, with or without a preamble. Needs its first 256 bytes. */
export const isDicomStart = (start: Buffer): boolean => hasMagic(start) || bareSyntaxOf(start) !== null;

/** Reads bytes of a file; fewer at its end. */
export async function readBytes(handle: FileHandle, length: number, from = 0): Promise<Buffer> {
  const { buffer, bytesRead } = await handle.read(Buffer.allocUnsafe(length), 0, length, from);
  return buffer.subarray(0, bytesRead);
}

/** Whether a file begins like gzip. */
export const isGzip = (bytes: Buffer): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b;

/** Maximum number of bytes unpacked at the beginning of a packed file. Headers come first. */
const maxUnpacked = 8 << 20;

/** Unpacks the beginning of packed bytes, as far as they go. @throws zlib's error */
export function unpackedStart(
  bytes: Uint8Array,
  unpack: (part: Uint8Array, options: { maxOutputLength: number; finishFlush: number }) => Buffer,
): Buffer {
  for (let part = bytes; ; part = part.subarray(0, part.length >> 2)) {
    try {
      return unpack(part, { finishFlush: constants.Z_SYNC_FLUSH, maxOutputLength: maxUnpacked });
    } catch (error) {
      // One byte becomes 1,032 at most, so a few rounds suffice.
      const isTooLarge = (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
      if (!isTooLarge || part.length < 1024) throw error;
    }
  }
}

/** Unpacks the beginning of a gzip file, up to 8 MiB. @throws zlib's error */
export const unzippedStart = (bytes: Buffer): Buffer => unpackedStart(bytes, gunzipSync);

/** The beginning of a file, unpacked if it is gzip. Damaged data is returned packed: reading the whole file will report it. */
export function unzippedIfPossible(bytes: Buffer): Buffer {
  try {
    return isGzip(bytes) ? unzippedStart(bytes) : bytes;
  } catch {
    return bytes;
  }
}
