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

/** How pixels leave. */
export interface PixelPieces {
  /** What goes before the first piece: the beginning of the element. */
  readonly start: Buffer;
  readonly pieces: readonly PackedPiece[];
}

/** Bytes that uncompressed pixels have by their description; null where that is not whole. */
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
 * The table of offsets before compressed pixels, as an item. It is written anew, since any bytes can stand in it; one that
 * does not tell where parts begin is left out, as the standard allows.
 */
function tableItem({ table, fragments }: PixelData): Buffer {
  const starts = new Set(fragments?.map(({ start }) => start));
  const offsets = table.every((each) => starts.has(each)) ? table : [];
  const bytes = Buffer.alloc(4 * offsets.length);
  for (const [index, offset] of offsets.entries()) bytes.writeUInt32LE(offset, 4 * index);
  return Buffer.concat([itemStart(bytes.length), bytes]);
}

/** A number of an element in a fixed place of the data set says how the pixels are called. */
const tagOf = (set: DataSet): string =>
  ['7fe00008', '7fe00009'].find((tag) => set.elements[`x${tag}`]) ?? '7fe00010';

/** The pixels of a file as they are: none is changed, and nothing that stands behind them is sent. */
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
