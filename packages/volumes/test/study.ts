import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { DataSet } from 'dicom-parser';
import parser from 'dicom-parser';
import { dicomFile, type Element, element } from '../../../test/support/dicom-files.js';
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
} from '../src/index.js';
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

/** Every element of a file but its voxels, a line each, with those of sequences below them. */
export function listed({ elements, byteArray }: DataSet, indent = ''): string[] {
  return Object.values(elements).flatMap(({ tag, vr, items, dataOffset, length }) => {
    const start = `${indent}${tag.slice(1)}${vr ? ` ${vr}` : ''}`;
    if (items)
      return [
        start,
        ...items.flatMap(({ dataSet }, at) =>
          dataSet ? [`${indent}  ${at + 1}`, ...listed(dataSet, `${indent}    `)] : [],
        ),
      ];
    if (tag === 'x7fe00010') return [`${start} ${length} bytes`];
    const bytes = Buffer.from(byteArray.buffer, byteArray.byteOffset + dataOffset, length);
    if (vr === 'US' || vr === 'AT' || vr === 'SS')
      return [
        `${start} ${Array.from({ length: length / 2 }, (_, at) => bytes.readUInt16LE(2 * at)).join(' ')}`,
      ];
    if (vr === 'UL')
      return [
        `${start} ${Array.from({ length: length / 4 }, (_, at) => bytes.readUInt32LE(4 * at)).join(' ')}`,
      ];
    if (vr === 'OB') return [`${start} ${bytes.toString('hex')}`];
    return [`${start} ${bytes.toString('latin1').replace(/[\0 ]+$/, '')}`.trimEnd()];
  });
}

/** What each file of a series says of patient and study beside `identity`, one of each kind. */
export const moreIdentity = (
  [
    [0x00080005, 'CS', 'ISO_IR 100'],
    [0x00080030, 'TM', '101112'],
    [0x00080090, 'PN', 'Ref'],
    [0x00080201, 'SH', '+0100'],
    [0x00081030, 'LO', 'Head'],
    [0x00081048, 'PN', 'Rec'],
    [0x00081060, 'PN', 'Read'],
    [0x00100021, 'LO', 'Issuer'],
    [0x00100022, 'CS', 'TEXT'],
    [0x00100030, 'DA', '19700102'],
    [0x00100032, 'TM', '030405'],
    [0x00101000, 'LO', 'Other'],
    [0x00101001, 'PN', 'Other^Name'],
    [0x00101010, 'AS', '050Y'],
    [0x00101020, 'DS', '1.7'],
    [0x00101030, 'DS', '70'],
    [0x00102160, 'SH', 'Group'],
    [0x00102180, 'SH', 'Baker'],
    [0x001021b0, 'LT', 'History'],
    [0x00102201, 'LO', 'Human'],
    [0x00102292, 'LO', 'Breed'],
    [0x00102297, 'PN', 'Resp'],
    [0x00102298, 'CS', 'OWNER'],
    [0x00104000, 'LT', 'Comments'],
    [0x00120010, 'LO', 'Sponsor'],
    [0x00120020, 'LO', 'Protocol'],
    [0x00120021, 'LO', 'Name'],
    [0x00120030, 'LO', 'Site'],
    [0x00120031, 'LO', 'Site name'],
    [0x00120040, 'LO', 'Subject'],
    [0x00120042, 'LO', 'Reading'],
    [0x00120050, 'LO', 'Point'],
    [0x00120051, 'ST', 'Point text'],
    [0x00120062, 'CS', 'YES'],
    [0x00120063, 'LO', 'Method'],
    [0x00180050, 'DS', '2.2'],
    [0x00201040, 'LO', 'Landmark'],
    [0x00282110, 'CS', '01'],
    [0x00282112, 'DS', '10'],
    [0x00282114, 'CS', 'ISO_10918_1'],
  ] as const
).map(([tag, vr, value]) => element(tag, vr, text(value)));
