import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { dicomFile, type Element, type Encoding, element } from '../../../test/support/dicom-files.js';
import { openVolume, type Voxels } from '../src/index.js';
import { workspace } from './written.js';

/** Not a whole number of bytes, so that frames begin within one. */
export const [columns, rows] = [5, 3];
export const plane = columns * rows;

interface Segment {
  readonly number: number;
  readonly label: string;
  readonly colour?: readonly number[];
}

export interface SegmentFrame {
  readonly z: number;
  readonly segment?: number;
  /** Of its first pixel, to the left. */
  readonly x?: number;
  /** Values of all its pixels. */
  readonly values: readonly number[];
}

export const segmentItem = ({ number, label, colour }: Segment): Element[] => [
  element(0x00620004, 'US', [number]),
  element(0x00620005, 'LO', label),
  ...(colour ? [element(0x0062000d, 'US', colour)] : []),
];

const segments: readonly Segment[] = [
  { number: 1, label: 'Liver', colour: [0xffff, 0x8080, 0x8080] },
  { number: 3, label: 'Tumour', colour: [35579, 53664, 50858] },
  { number: 4, label: 'Vessel' },
];

/** Single bits, lowest first, of all frames without gaps. */
function packed(frames: readonly SegmentFrame[]): Uint8Array {
  const bits = frames.flatMap(({ values }) => values);
  const bytes = new Uint8Array(2 * Math.ceil(bits.length / 16));
  for (const [at, bit] of bits.entries()) bytes[at >> 3] = (bytes[at >> 3] ?? 0) | (bit << (at & 7));
  return bytes;
}

export async function write(
  frames: readonly SegmentFrame[],
  given: { type?: string; class?: string; more?: Element[]; encoding?: Encoding } = {},
): Promise<string> {
  const { type = 'BINARY', class: last = '66.4', more = [], encoding } = given;
  const isBinary = type === 'BINARY';
  const pixels = isBinary ? packed(frames) : Uint8Array.from(frames.flatMap(({ values }) => values));
  const bytes = dicomFile(
    {
      pixels,
      size: [columns, rows],
      spacing: [2, 1.5],
      frames: frames.map(({ z, segment, x = 10 }) => ({
        position: [x, 20, z],
        ...(segment !== undefined && {
          more: [element(0x0062000a, 'SQ', [[element(0x0062000b, 'US', [segment])]])],
        }),
      })),
      more: [
        element(0x00080016, 'UI', `1.2.840.10008.5.1.4.1.1.${last}`),
        element(0x00080060, 'CS', 'SEG'),
        element(0x00620001, 'CS', type),
        element(0x00620002, 'SQ', segments.map(segmentItem)),
        ...(isBinary
          ? [element(0x00280100, 'US', [1]), element(0x00280101, 'US', [1]), element(0x00280102, 'US', [0])]
          : []),
        ...more,
      ],
    },
    encoding,
  );
  const file = path.join(await workspace(), 'seg.dcm');
  await writeFile(file, bytes);
  return file;
}

export async function slicesOf(file: string, only?: readonly number[]): Promise<Voxels[]> {
  const all: Voxels[] = [];
  for await (const { values } of (await openVolume(file)).slices(only ? { only } : {}))
    all.push(values.slice());
  return all;
}

export const where = (...pixels: number[]) =>
  Array.from({ length: plane }, (_, at) => (pixels.includes(at) ? 1 : 0));
export const labels = (at: Record<number, number>) =>
  Uint8Array.from({ length: plane }, (_, index) => at[index] ?? 0);
