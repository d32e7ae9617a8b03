import type { DataSet } from 'dicom-parser';
import { decodeFrame, interleaved, requireDecoder, type Samples } from './dicom-codecs.js';
import { type ByteSource, cutShort, type DicomElements } from './dicom-elements.js';
import { readNumber } from './dicom-numbers.js';
import { wordsOf } from './headers/dicom-parse.js';
import { syntaxes } from './headers/dicom-walk.js';
import { swapBytes, TruncatedVolume, VolumeError, type Voxels } from './volume.js';

/** How the pixels of a file are stored. */
export interface PixelFormat {
  readonly name: string;
  readonly syntax: string;
  readonly rows: number;
  readonly columns: number;
  readonly frames: number;
  /** Stored values per pixel: 1, or 3 for colours. */
  readonly samples: 1 | 3;
  /** Values per pixel after reading: palette indices become colours. */
  readonly components: 1 | 3;
  readonly photometric: string;
  readonly isPlanar: boolean;
  readonly bitsAllocated: number;
  readonly bitsStored: number;
  readonly highBit: number;
  readonly isSigned: boolean;
  readonly isFloat: boolean;
  readonly isBigEndian: boolean;
  readonly palette: Palette | null;
  readonly data: NonNullable<DicomElements['pixels']>;
}

interface Palette {
  /** The value of the first colour. */
  readonly first: number;
  /** Red, green and blue of each colour. */
  readonly colours: Uint8Array;
}

/** Supported photometric interpretations. */
const photometrics = /^(MONOCHROME[12]|PALETTE COLOR|RGB|YBR_FULL|YBR_FULL_422|YBR_RCT|YBR_ICT)$/;

/** More frames than any file has. */
export const maxFrames = 100_000;

/** Maximum size of a frame in values and bytes: 11,585 x 11,585 pixels. Decoding and drawing need several times the memory. */
const [maxValues, maxBytes] = [2 ** 27, 2 ** 29];

const plainSyntaxes: ReadonlySet<string> = new Set(Object.values(syntaxes));

/**
 * How the pixels of a file are stored.
 * @param isIndexed whether values are labels, so that no palette is applied
 * @throws VolumeError for a file without an image, a truncated file, and pixels that cannot be read
 */
export function pixelFormatOf(name: string, dicom: DicomElements, isIndexed = false): PixelFormat {
  const { set, syntax, pixels } = dicom;
  const number = (tag: string) => set.uint16(tag);
  const [rows = 0, columns = 0] = [number('x00280010'), number('x00280011')];
  const frames = readNumber(set, 'x00280008', name) ?? 1;
  const bitsAllocated = number('x00280100') ?? 0;
  // Each frame has at least one bit, or one fragment.
  const possibleFrames = pixels?.fragments?.length ?? (pixels?.length ?? 0) * 8;
  if (!pixels || !(rows * columns * bitsAllocated > 0) || !(frames >= 1 && frames <= possibleFrames))
    throw new VolumeError(
      `${name} holds no image or is cut short: take it out, or copy it again from the original.`,
    );
  if (!Number.isInteger(frames) || frames > maxFrames)
    throw new VolumeError(`${name} says that it has ${frames} frames, more than are read: it is damaged.`);
  const perFrame = rows * columns * (number('x00280002') ?? 1);
  if (perFrame > maxValues || (perFrame * bitsAllocated) / 8 > maxBytes)
    throw new VolumeError(
      `${name} has ${columns} x ${rows} pixels of ${bitsAllocated} bits in a frame, more than are read at once: reduce it.`,
    );
  const samples = number('x00280002') ?? 1;
  const photometric = wordsOf(set, 'x00280004') ?? (samples === 3 ? 'RGB' : 'MONOCHROME2');
  const isFloat = Boolean(set.elements.x7fe00008 ?? set.elements.x7fe00009) && !set.elements.x7fe00010;
  const refuse = (what: string) =>
    new VolumeError(`${name} has ${what}, which cannot be read here: convert it to NIfTI.`);
  if ((samples !== 1 && samples !== 3) || !photometrics.test(photometric))
    throw refuse(`${samples} values in a pixel (${photometric})`);
  if (!(isFloat ? [32, 64] : [1, 8, 16, 32]).includes(bitsAllocated))
    throw refuse(`${bitsAllocated} bits in a value`);
  if (samples === 3 && photometric.startsWith('YBR_FULL') && bitsAllocated !== 8)
    throw refuse(`colours (${photometric}) of ${bitsAllocated} bits`);
  if (bitsAllocated === 1 && (samples === 3 || photometric === 'PALETTE COLOR') && !isIndexed)
    throw refuse('colours of one bit');
  const bitsStored = number('x00280101') ?? bitsAllocated;
  const highBit = number('x00280102') ?? bitsStored - 1;
  const isSound = bitsStored >= 1 && highBit < bitsAllocated && highBit + 1 >= bitsStored;
  const isPalette = photometric === 'PALETTE COLOR' && !isIndexed;
  const format: PixelFormat = {
    name,
    syntax,
    rows,
    columns,
    frames,
    samples,
    components: isPalette ? 3 : samples,
    photometric,
    isPlanar: samples === 3 && number('x00280006') === 1,
    bitsAllocated,
    // Impossible values are ignored.
    bitsStored: isSound ? bitsStored : bitsAllocated,
    highBit: isSound ? highBit : bitsAllocated - 1,
    isSigned: samples === 1 && bitsAllocated > 1 && number('x00280103') === 1,
    isFloat,
    isBigEndian: syntax === syntaxes.bigEndian,
    palette: isPalette ? paletteOf(name, set) : null,
    data: pixels,
  };
  if (pixels.fragments) {
    if (plainSyntaxes.has(syntax)) throw refuse('compressed pixels that do not say how they are compressed');
    requireDecoder(name, syntax);
  } else {
    const needed = Math.ceil((bitsOf(format) * format.frames) / 8);
    if (pixels.length < needed)
      throw new TruncatedVolume(
        `${name} is cut short: its header says ${needed} bytes of pixels, and it has ${pixels.length}. Copy it again from the original.`,
      );
  }
  return format;
}

/** The colours of a palette, reduced to 8 bits. */
function paletteOf(name: string, set: DataSet): Palette {
  const tables = ['1', '2', '3'].map((colour) => {
    const descriptor = `x0028110${colour}`;
    const count = set.uint16(descriptor, 0) || 0x1_0000;
    const bits = set.uint16(descriptor, 2) ?? 16;
    const element = set.elements[`x0028120${colour}`];
    const width = element && element.length >= count * 2 ? 2 : 1;
    if (!element || element.length < count)
      throw new VolumeError(`${name} has no complete palette: convert it to RGB.`);
    const read = (index: number) =>
      width === 2
        ? (set.uint16(`x0028120${colour}`, index) ?? 0) >> (bits > 8 ? 8 : 0)
        : (set.byteArray[element.dataOffset + index] ?? 0);
    return { count, first: set.int16(descriptor, 1) ?? 0, read };
  });
  const count = Math.min(...tables.map((table) => table.count));
  const colours = new Uint8Array(count * 3);
  for (let index = 0; index < count; index += 1)
    for (const [colour, table] of tables.entries()) colours[index * 3 + colour] = table.read(index);
  return { first: tables[0]?.first ?? 0, colours };
}

/** Number of bits in an uncompressed frame. */
function bitsOf({ rows, columns, samples, bitsAllocated, photometric }: PixelFormat): number {
  // Two pixels share one pair of colour values.
  if (samples === 3 && photometric === 'YBR_FULL_422') return rows * columns * 2 * bitsAllocated;
  return rows * columns * samples * bitsAllocated;
}

/** Allocates an array for the stored pixels of a format. */
export function arrayFor(format: PixelFormat, length: number): Voxels {
  const { isFloat, bitsAllocated, isSigned, palette } = format;
  if (isFloat) return bitsAllocated === 64 ? new Float64Array(length) : new Float32Array(length);
  if (palette || bitsAllocated <= 8)
    return isSigned && !palette ? new Int8Array(length) : new Uint8Array(length);
  if (bitsAllocated === 16) return isSigned ? new Int16Array(length) : new Uint16Array(length);
  return isSigned ? new Int32Array(length) : new Uint32Array(length);
}

/**
 * Reads the pixels of one frame: rows x columns x components values of the type of `arrayFor`, unscaled.
 * @throws VolumeError for damaged pixels
 */
export async function readPixels(source: ByteSource, format: PixelFormat, frame: number): Promise<Voxels> {
  if (format.data.fragments) {
    const bytes = await readCompressed(source, format, frame);
    return converted(format, await decodeFrame(bytes, format));
  }
  const bits = bitsOf(format);
  const from = Math.floor((frame * bits) / 8);
  // A big-endian word of 16 bits holds two values of 8 bits, the second one first.
  const isSwapped = format.isBigEndian && format.bitsAllocated === 8 && format.data.vr === 'OW';
  const lead = isSwapped ? from % 2 : 0;
  const needed = Math.ceil(((frame + 1) * bits) / 8) - from;
  const length = lead + needed + (isSwapped ? (lead + needed) % 2 : 0);
  let bytes = await source.read(format.data.offset + from - lead, length);
  if (bytes.length < lead + needed) throw cutShort(format.name);
  if (isSwapped && bytes.length % 2 === 0) bytes.swap16();
  if (lead > 0) bytes = Buffer.from(new Uint8Array(bytes.subarray(lead, lead + needed)).buffer);
  const pixels = format.rows * format.columns;
  if (format.bitsAllocated === 1) return bitsIn(bytes, (frame * bits) % 8, pixels);
  if (format.isBigEndian && format.bitsAllocated > 8) swapBytes(bytes, format.bitsAllocated / 8);
  const values = pixels * format.samples;
  if (format.isFloat)
    return format.bitsAllocated === 64
      ? new Float64Array(bytes.buffer, 0, values)
      : new Float32Array(bytes.buffer, 0, values);
  if (format.samples === 3 && format.photometric === 'YBR_FULL_422')
    return converted(format, { data: fullColours(bytes), bits: 8 });
  const raw = rawOf(bytes, format.bitsAllocated, values);
  const data = format.isPlanar ? interleaved(raw, format.samples) : raw;
  return converted(format, { data, bits: format.bitsAllocated });
}

function rawOf({ buffer }: Buffer, bits: number, count: number): Samples['data'] {
  if (bits === 8) return new Uint8Array(buffer, 0, count);
  return bits === 16 ? new Uint16Array(buffer, 0, count) : new Uint32Array(buffer, 0, count);
}

/** Single bits, lowest first, as 0 and 1. Empty bytes are skipped, because most of a segmentation is empty. */
function bitsIn(bytes: Uint8Array, from: number, count: number): Uint8Array {
  const values = new Uint8Array(count);
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0;
    if (byte === 0) continue;
    for (let bit = 0, to = at * 8 - from; bit < 8; bit += 1, to += 1)
      if (to >= 0 && to < count) values[to] = (byte >> bit) & 1;
  }
  return values;
}

/** Expands YBR_FULL_422: two pixels share their colour (Y Y Cb Cr). */
function fullColours(bytes: Uint8Array): Uint8Array {
  const values = new Uint8Array((bytes.length / 2) * 3);
  for (let at = 0, to = 0; at + 3 < bytes.length; at += 4) {
    for (const pixel of [0, 1]) {
      values[to] = bytes[at + pixel] ?? 0;
      values[to + 1] = bytes[at + 2] ?? 0;
      values[to + 2] = bytes[at + 3] ?? 0;
      to += 3;
    }
  }
  return values;
}

/** The bytes of a compressed frame, which may have several fragments. */
async function readCompressed(source: ByteSource, format: PixelFormat, frame: number): Promise<Buffer> {
  const { name, frames } = format;
  const { fragments, table } = format.data;
  const all = fragments ?? [];
  let own = all;
  if (frames > 1 && all.length === frames) own = all.slice(frame, frame + 1);
  else if (frames > 1 && table.length === frames) {
    const [from = 0, to = Number.POSITIVE_INFINITY] = [table[frame], table[frame + 1]];
    own = all.filter(({ start }) => start >= from && start < to);
  } else if (frames > 1)
    throw new VolumeError(
      `${name} does not say where its ${frames} frames begin: decompress it, for example with gdcmconv --raw.`,
    );
  const parts: Buffer[] = [];
  for (const { offset, length } of own) parts.push(await source.read(offset, length));
  return parts.length === 1 && parts[0] ? parts[0] : Buffer.from(new Uint8Array(Buffer.concat(parts)).buffer);
}

/** Removes unused bits, extends signs, and applies the palette and the conversion to RGB. */
function converted(format: PixelFormat, { data, bits, isRgb = false }: Samples): Voxels {
  const { samples, photometric, palette } = format;
  if (samples === 3) {
    if (!isRgb && photometric.startsWith('YBR')) toRgb(data);
    return data;
  }
  // Decoders have already shifted the lowest stored bit to bit 0.
  const isPacked = format.data.fragments !== null && format.syntax !== '1.2.840.10008.1.2.5';
  const kept = Math.min(bits, format.bitsStored);
  const shift = isPacked ? 0 : format.highBit + 1 - format.bitsStored;
  const values = arrayFor({ ...format, palette: null }, data.length);
  const isWhole = kept === data.BYTES_PER_ELEMENT * 8 && data.BYTES_PER_ELEMENT === values.BYTES_PER_ELEMENT;
  // The same bits, interpreted as signed or unsigned.
  if (isWhole && shift === 0)
    new Uint8Array(values.buffer).set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  else {
    const unused = 32 - kept;
    for (let index = 0; index < data.length; index += 1) {
      const moved = ((data[index] ?? 0) >>> shift) << unused;
      values[index] = format.isSigned ? moved >> unused : moved >>> unused;
    }
  }
  return palette ? coloured(palette, values) : values;
}

/** Converts full-range YCbCr of 8 bits to RGB in place (PS3.3, C.7.6.3.1.2). */
function toRgb(data: Samples['data']): void {
  const byte = (value: number) => Math.min(255, Math.max(0, Math.round(value)));
  for (let at = 0; at + 2 < data.length; at += 3) {
    const [y, cb, cr] = [data[at] ?? 0, (data[at + 1] ?? 0) - 128, (data[at + 2] ?? 0) - 128];
    data[at] = byte(y + 1.402 * cr);
    data[at + 1] = byte(y - 0.344136 * cb - 0.714136 * cr);
    data[at + 2] = byte(y + 1.772 * cb);
  }
}

function coloured({ first, colours }: Palette, values: Voxels): Uint8Array {
  const last = colours.length / 3 - 1;
  const data = new Uint8Array(values.length * 3);
  for (let index = 0; index < values.length; index += 1) {
    const colour = Math.min(last, Math.max(0, (values[index] ?? 0) - first)) * 3;
    data[index * 3] = colours[colour] ?? 0;
    data[index * 3 + 1] = colours[colour + 1] ?? 0;
    data[index * 3 + 2] = colours[colour + 2] ?? 0;
  }
  return data;
}
