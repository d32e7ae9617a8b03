import type { Affine, Slice, VolumeFile, Voxels } from '@remote-app/volumes';
import type { CaseView, DrawnCase } from '../../../src/imaging/pictures/picture.js';
import { type CaseVolumes, type ViewOptions, viewCase } from '../../../src/imaging/pictures/view-case.js';
import { straight } from '../../support/affine.js';

/** A picture of volumes, by default of one slice of each plane. */
export const viewOf = (volumes: Partial<CaseVolumes>, options: Partial<ViewOptions> = {}) =>
  viewCase(
    { name: 'case', scan: null, mask: null, terminology: {}, unit: null, ...volumes },
    { slices: 1, maxPixels: 64, frame: 0, signal: new AbortController().signal, ...options },
  );

/** A case of a sheet, with these pictures. */
export const drawnCase = (name: string, ...views: readonly CaseView[]): DrawnCase => ({
  ...{ name, notes: [], status: null },
  layers: views.map((view) => ({ name, view, scan: null, mask: null })),
});

/** A volume that is not on a disk. */
export function volumeOf(
  data: Voxels,
  size: readonly [number, number, number],
  more: Partial<Omit<VolumeFile, 'size' | 'slices'>> = {},
): VolumeFile {
  const { components = 1, frames = 1 } = more;
  const inSlice = size[0] * size[1] * components;
  return {
    path: '/data/phantom.nii',
    format: 'NIfTI',
    affine: straight(),
    hasOrientation: true,
    modality: null,
    labels: null,
    ...more,
    size,
    components,
    frames,
    async *slices({ only, frame = 0 } = {}): AsyncGenerator<Slice, void, undefined> {
      for (const k of only ?? Array.from({ length: size[2] }, (_, index) => index)) {
        const from = (frame * size[2] + k) * inSlice;
        yield { k, values: data.subarray(from, from + inSlice) };
      }
    },
  };
}

/** How an array lies in space: for each of its axes, the axis of space (0 right, 1 front, 2 up) and its direction. */
export type Layout = readonly { readonly along: 0 | 1 | 2; readonly sign: 1 | -1 }[];

/** All 48 ways in which the axes of an array can follow those of space. */
export const layouts: readonly Layout[] = (
  [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
  ] as const
).flatMap((order) =>
  Array.from({ length: 8 }, (_, signs) =>
    order.map((along, axis) => ({ along, sign: signs & (1 << axis) ? (-1 as const) : (1 as const) })),
  ),
);

/** `LPS`: the directions in which the axes of an array run. */
export const layoutName = (layout: Layout): string =>
  layout.map(({ along, sign }) => ['RL', 'AP', 'SI'][along]?.[sign > 0 ? 0 : 1]).join('');

/** A rotation about the axis upwards, then about that to the right, in degrees. */
const rotation = (degrees: number): readonly (readonly number[])[] => {
  const [c, s] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)];
  return [
    [c, -s, 0],
    [c * s, c * c, -s],
    [s * s, s * c, c],
  ];
};

/** How a phantom is sampled. */
export interface Sampling {
  readonly layout: Layout;
  /** Millimetres between voxels, along the axes of space: to the right, to the front, upwards. */
  readonly spacing: readonly [number, number, number];
  /** By how much its axes are turned, in degrees. */
  readonly turned?: number;
}

/** The same with an eighth of the voxels, for what has to be the same in many layouts. */
export const coarser = (sampling: Omit<Sampling, 'layout'>): Omit<Sampling, 'layout'> => {
  const [x, y, z] = sampling.spacing;
  return { ...sampling, spacing: [x * 2, y * 2, z * 2] };
};

/** Size of the phantom, in mm: to the right, to the front, upwards. */
const extent = [80, 96, 64] as const;

/**
 * An ellipsoid with a bright ball in its right upper front part, which is label 2; the rest of it is label 1. The same in
 * space for every layout; when it is turned, it turns with its axes.
 */
export function phantom({ layout, spacing, turned = 0 }: Sampling): { scan: VolumeFile; mask: VolumeFile } {
  const counts = extent.map((each, axis) => Math.round(each / (spacing[axis] ?? 1)));
  const size = layout.map(({ along }) => counts[along] ?? 1) as [number, number, number];
  const scan = new Int16Array(size[0] * size[1] * size[2]);
  const mask = new Uint8Array(scan.length);
  const along = layout.map(({ along }) => along);
  const place = [0, 0, 0];
  const index = [0, 0, 0];
  for (let at = 0; at < scan.length; at += 1) {
    index[0] = at % size[0];
    index[1] = Math.floor(at / size[0]) % size[1];
    index[2] = Math.floor(at / (size[0] * size[1]));
    layout.forEach(({ sign }, axis) => {
      const ofSpace = along[axis] ?? 0;
      const middle = ((size[axis] ?? 1) - 1) / 2;
      place[ofSpace] = ((index[axis] ?? 0) - middle) * sign * (spacing[ofSpace] ?? 1);
    });
    const [x = 0, y = 0, z = 0] = place;
    const isHead = (x / 32) ** 2 + (y / 40) ** 2 + (z / 26) ** 2 < 1;
    const isMarker = (x - 14) ** 2 + (y - 16) ** 2 + (z - 8) ** 2 < 7 ** 2;
    scan[at] = isMarker ? 1000 : isHead ? 500 : 0;
    mask[at] = isMarker ? 2 : isHead ? 1 : 0;
  }
  const turn = rotation(turned);
  const affine = [0, 1, 2].map((row) => {
    const steps = layout.map(({ along, sign }) => (turn[row]?.[along] ?? 0) * sign * (spacing[along] ?? 1));
    const offset = -steps.reduce((sum, step, axis) => sum + (step * ((size[axis] ?? 1) - 1)) / 2, 0);
    return [...steps, offset];
  }) as unknown as Affine;
  return {
    scan: volumeOf(scan, size, { affine, path: '/data/scan.nii' }),
    mask: volumeOf(mask, size, { affine, path: '/data/mask.nii' }),
  };
}
