import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { DataSet } from 'dicom-parser';
import parser from 'dicom-parser';
import {
  type Affine,
  type Geometry,
  type Maker,
  openVolume,
  readSourceSeries,
  type Segment,
  type SourceSeries,
  type VolumeFile,
  writeNifti,
} from '../../src/volumes/index.js';
import { dicomFile, type Element, element } from '../support/dicom-files.js';
import { workspace } from './written.js';

/** Columns, rows and slices: no whole bytes in a frame, and no two alike. */
export const size = [5, 3, 4] as const;
const plane = size[0] * size[1];

export const maker: Maker = {
  app: 'brain',
  appVersion: '1.2',
  version: '0.1.0',
  name: 'mask',
  madeAt: new Date(2026, 10, 26, 6, 7, 8),
};

const half = Math.SQRT1_2;
/** Turned by 45 degrees around the first axis. */
export const oblique = [1, 0, 0, 0, half, half];
const straight = [1, 0, 0, 0, 1, 0];

const text = (value: string) => Buffer.from(value.length % 2 === 0 ? value : `${value} `, 'latin1');

/** What each file of the series says of patient and study. */
export const identity = [
  element(0x00080020, 'DA', '20200102'),
  element(0x00080050, 'SH', 'A-77'),
  element(0x00100010, 'PN', text('Muster^Anna')),
  element(0x00100020, 'LO', 'P-1'),
  element(0x00100040, 'CS', 'F'),
  element(0x00200010, 'SH', 'S1'),
  element(0x00200011, 'IS', '7'),
  element(0x00200052, 'UI', '1.2.3.9'),
];

interface SeriesFacts {
  readonly orientation?: readonly number[];
  readonly more?: readonly Element[];
  readonly isEnhanced?: boolean;
  /** Millimetres by which each slice is shifted against the one before, along its columns: a tilted gantry. */
  readonly shift?: number;
}

/** Where slice k of the series lies. */
const positionOf = (orientation: readonly number[], k: number, shift: number): number[] => {
  const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0] = orientation;
  const normal = [b * f - c * e, c * d - a * f, a * e - b * d];
  const way = normal.map((part, axis) => 2.5 * part + shift * (orientation[3 + axis] ?? 0));
  return [-20, 30, 40].map((start, axis) => Number((start + k * (way[axis] ?? 0)).toFixed(6)));
};

/** Writes a series of MR into a directory of its own, and reads it. */
export async function writeSeries(given: SeriesFacts = {}): Promise<SourceSeries> {
  const { orientation = straight, more = [], isEnhanced = false, shift = 0 } = given;
  const directory = await workspace();
  const shared = { size: [size[0], size[1]] as const, spacing: [1.5, 0.75], orientation };
  const all = [...identity, element(0x00180050, 'DS', '2.5'), ...more];
  if (isEnhanced) {
    const frames = Array.from({ length: size[2] }, (_, k) => ({
      position: positionOf(orientation, k, shift),
    }));
    const pixels = new Uint16Array(plane * size[2]);
    await writeFile(
      path.join(directory, 'all.dcm'),
      dicomFile({ ...shared, pixels, frames, more: [...all, element(0x00080018, 'UI', '1.2.3.5')] }),
    );
    return readSourceSeries(path.join(directory, 'all.dcm'));
  }
  // Names say nothing of the order.
  for (let k = 0; k < size[2]; k += 1)
    await writeFile(
      path.join(directory, `${size[2] - k}.dcm`),
      dicomFile({
        ...shared,
        pixels: new Uint16Array(plane),
        position: positionOf(orientation, k, shift),
        more: [...all, element(0x00080018, 'UI', `1.2.3.5.${k + 1}`)],
      }),
    );
  return readSourceSeries(directory);
}

/** Labels 0, 1, 2 and 5 that no order of the axes leaves as they are. */
export const labels = Uint8Array.from(
  { length: plane * size[2] },
  (_, at) => [0, 1, 0, 2, 5][(at * 7 + (at >> 3)) % 5] ?? 0,
);

/** Writes a label map, and opens it. */
export async function writeMask(
  name: string,
  mask: {
    readonly size: readonly [number, number, number];
    readonly affine: Affine;
    readonly data: Uint8Array;
  },
): Promise<VolumeFile> {
  const file = path.join(await workspace(), name);
  await writeNifti(file, mask);
  return openVolume(file);
}

/** The elements of a file. */
export function parse(bytes: Buffer): DataSet {
  return parser.parseDicom(bytes);
}

/** The orders in which the axes of an array may run: which axis of the series each has, and whether it runs backwards. */
export const orders = [
  [0, 1, 2],
  [0, 2, 1],
  [1, 0, 2],
  [1, 2, 0],
  [2, 0, 1],
  [2, 1, 0],
].flatMap((axes) =>
  Array.from({ length: 8 }, (_, flips) =>
    axes.map((axis, at) => ({ axis, isBack: ((flips >> at) & 1) === 1 })),
  ),
);

/** The same labels at the same places, with the axes of the array in another order. */
export function reordered(
  { affine: from }: Pick<Geometry, 'affine'>,
  order: readonly { axis: number; isBack: boolean }[],
) {
  const counts = order.map(({ axis }) => size[axis] ?? 0) as [number, number, number];
  const data = new Uint8Array(labels.length);
  let to = 0;
  for (let c = 0; c < counts[2]; c += 1)
    for (let b = 0; b < counts[1]; b += 1)
      for (let a = 0; a < counts[0]; a += 1, to += 1) {
        const at = [0, 0, 0];
        for (const [index, value] of [a, b, c].entries()) {
          const { axis, isBack } = order[index] ?? { axis: 0, isBack: false };
          at[axis] = isBack ? (size[axis] ?? 0) - 1 - value : value;
        }
        data[to] = labels[((at[2] ?? 0) * size[1] + (at[1] ?? 0)) * size[0] + (at[0] ?? 0)] ?? 0;
      }
  const affine = from.map((row) => {
    const offset = order.reduce(
      (sum, { axis, isBack }) => sum + (isBack ? ((size[axis] ?? 0) - 1) * (row[axis] ?? 0) : 0),
      row[3],
    );
    return [...order.map(({ axis, isBack }) => (isBack ? -1 : 1) * (row[axis] ?? 0)), offset];
  }) as unknown as Affine;
  return { size: counts, affine, data };
}

/** Such a mask of these labels on the grid of a series. */
export const maskOn = (source: SourceSeries, data = labels): Promise<VolumeFile> =>
  writeMask('mask.nii.gz', { size, affine: source.affine, data });

/** What the labels are called; the last one is in no mask. */
export const segments: readonly Segment[] = [
  { value: 1, name: 'Liver', color: '#dd8265', snomed: { code: '10200004', meaning: 'Liver' } },
  { value: 5, name: 'Tumour', color: '#00ff00', snomed: null },
  { value: 9, name: 'Spleen', color: null, snomed: null },
];
