import {
  type DicomElements,
  type DicomSyntax,
  elementStart,
  itemStart,
  openBytes,
  type PixelData,
} from '@remote-app/volumes';
import type { PackedPiece } from '../../archive/index.js';
import { type DataSet, textOf } from './values.js';

const sequenceEnd = Buffer.from('feffdde000000000', 'hex');

/** The pixels of a file as they are sent. */
export interface PixelPieces {
  /** What precedes the first piece: the head of the element. */
  readonly start: Buffer;
  readonly pieces: readonly PackedPiece[];
}

/** Bytes of uncompressed pixels according to their description; null if that is incomplete. */
function expectedBytes(set: DataSet): number | null {
  const [rows, columns, bits] = [set.uint16('x00280010'), set.uint16('x00280011'), set.uint16('x00280100')];
  if (!rows || !columns || !bits) return null;
  const isHalved = /^YBR_(?:FULL|PARTIAL)_42[02]$/.test(textOf(set, 'x00280004'));
  const samples = isHalved ? 2 : (set.uint16('x00280002') ?? 1);
  const frames = Number(textOf(set, 'x00280008') || 1);
  const bytes = Math.ceil((rows * columns * samples * frames * bits) / 8);
  return Number.isInteger(bytes) && bytes > 0 ? bytes + (bytes % 2) : null;
}

/**
 * The Basic Offset Table as an item. It is rewritten because it may contain arbitrary bytes. A table whose offsets are not the
 * starts of fragments is left empty, as the standard allows.
 */
function tableItem({ table, fragments }: PixelData): Buffer {
  const starts = new Set(fragments?.map(({ start }) => start));
  const offsets = table.every((each) => starts.has(each)) ? table : [];
  const bytes = Buffer.alloc(4 * offsets.length);
  for (const [index, offset] of offsets.entries()) bytes.writeUInt32LE(offset, 4 * index);
  return Buffer.concat([itemStart(bytes.length), bytes]);
}

/** The pixels are Float (7FE0,0008), Double Float (7FE0,0009) or ordinary Pixel Data (7FE0,0010). */
const tagOf = (set: DataSet): string =>
  ['7fe00008', '7fe00009'].find((tag) => set.elements[`x${tag}`]) ?? '7fe00010';

/** The pixels of a file, unchanged. Nothing that follows them is sent. */
export async function pixelPieces(
  file: string,
  dicom: DicomElements,
  pixels: PixelData,
  syntax: DicomSyntax,
): Promise<PixelPieces> {
  const { set } = dicom;
  const tag = tagOf(set);
  const usual = { '7fe00008': 'OF', '7fe00009': 'OD' }[tag] ?? 'OW';
  if (pixels.fragments) {
    const [first, last] = [pixels.fragments[0], pixels.fragments.at(-1)];
    const range = first && last ? [{ start: first.offset - 8, end: last.offset + last.length }] : [];
    const start = elementStart(tag, 'OB', 0xffff_ffff);
    return { start: Buffer.concat([start, tableItem(pixels)]), pieces: [...range, sequenceEnd] };
  }
  const length = Math.min(pixels.length, expectedBytes(set) ?? pixels.length);
  const padding = length % 2;
  const vr = /^O[BWFD]$/.test(pixels.vr) ? pixels.vr : usual;
  const start = elementStart(tag, vr, length + padding, syntax);
  const end = padding ? [Buffer.alloc(1)] : [];
  if (dicom.deflatedFrom === null)
    return { start, pieces: [{ start: pixels.offset, end: pixels.offset + length }, ...end] };
  await using bytes = await openBytes(file, dicom.deflatedFrom);
  return { start, pieces: [await bytes.read(pixels.offset, length), ...end] };
}
