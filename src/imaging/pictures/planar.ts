import {
  arrayLike,
  type Slice,
  type SliceChoice,
  VolumeError,
  type VolumeHeader,
  type Voxels,
} from '@remote-app/volumes';
import { pausing } from './pausing.js';
import type { Axis } from './planes.js';

/** Indices that are cut out of a volume, by axis of the array. */
export type Wanted = readonly [i: readonly number[], j: readonly number[], k: readonly number[]];

/** Slices along the three axes, by index. Each has the voxels of the other two axes, the lower axis varying fastest. */
export type Cuts = readonly [Map<number, Voxels>, Map<number, Voxels>, Map<number, Voxels>];

/** Maximum bytes of all slices that are cut out. */
const maxHeld = 2 ** 31;

/** A source of slices: a volume, or a segmentation resampled to the grid of a scan. */
export interface SliceSource extends Pick<VolumeHeader, 'size' | 'components'> {
  slices(choice?: SliceChoice): AsyncIterable<Slice>;
}

/**
 * Cuts slices out of a volume in one pass. Only these slices are held in memory.
 * @param frame which volume of the file
 * @throws VolumeError for slices that are too large to be held; the abort reason of the signal
 */
export async function cut(
  source: SliceSource,
  wanted: Wanted,
  frame: number,
  signal?: AbortSignal,
): Promise<Cuts> {
  const [ni, nj, nk] = source.size;
  const { components } = source;
  const [wantedI, wantedJ, wantedK] = wanted;
  const cuts: Cuts = [new Map(), new Map(), new Map()];
  let held = 0;
  const hold = (length: number, { BYTES_PER_ELEMENT: bytes }: Voxels) => {
    held += length * bytes;
    if (held > maxHeld)
      throw new VolumeError(
        `The slices of a volume of ${source.size.join(' x ')} voxels are too large to be drawn: reduce it first.`,
      );
  };
  const isWhole = wantedI.length > 0 || wantedJ.length > 0;
  const taken = new Set(wantedK);
  const only = [...taken].sort((a, b) => a - b);
  const slices = source.slices(isWhole ? { frame } : { frame, only });
  for await (const { k, values } of pausing(slices, signal)) {
    const known = (cut: Map<number, Voxels>, index: number, length: number): Voxels => {
      const there = cut.get(index);
      if (there) return there;
      hold(length * components, values);
      const made = arrayLike(values, length * components);
      cut.set(index, made);
      return made;
    };
    if (taken.has(k)) {
      hold(values.length, values);
      cuts[2].set(k, values.slice());
    }
    for (const j of wantedJ) {
      const row = values.subarray(j * ni * components, (j + 1) * ni * components);
      known(cuts[1], j, ni * nk).set(row, k * ni * components);
    }
    for (const i of wantedI) {
      const to = known(cuts[0], i, nj * nk);
      for (let j = 0, at = k * nj * components; j < nj; j += 1)
        for (let part = 0; part < components; part += 1, at += 1)
          to[at] = values[(j * ni + i) * components + part] as number;
    }
  }
  return cuts;
}

/** How a slice is rendered: the axes of the picture, and the pixel size in mm. */
export interface Raster {
  readonly across: Axis;
  readonly down: Axis;
  readonly pixel: number;
}

/** Pixels along an axis. */
export const pixelsOf = ({ count, spacing }: Axis, pixel: number): number =>
  Math.max(1, Math.round((count * spacing) / pixel));

/** The centre of each pixel along an axis, as a fractional index. */
const middlesOf = (axis: Axis, pixel: number): number[] =>
  Array.from({ length: pixelsOf(axis, pixel) }, (_, at) => {
    const index = Math.min(axis.count - 1, Math.max(0, ((at + 0.5) * pixel) / axis.spacing - 0.5));
    return axis.isReversed ? axis.count - 1 - index : index;
  });

/** Strides between voxels of a slice in memory, along the axes of the picture. */
const stridesOf = ({ across, down }: Raster): readonly [across: number, down: number] =>
  across.of < down.of ? [1, across.count] : [down.count, 1];

/** The labels of a picture: each pixel takes the label of the voxel at its centre. */
export function labelsOf(indices: Uint8Array, raster: Raster): Uint8Array {
  const [strideAcross, strideDown] = stridesOf(raster);
  const columns = middlesOf(raster.across, raster.pixel).map((each) => Math.round(each) * strideAcross);
  const rows = middlesOf(raster.down, raster.pixel).map((each) => Math.round(each) * strideDown);
  const labels = new Uint8Array(columns.length * rows.length);
  let at = 0;
  for (const row of rows) for (const column of columns) labels[at++] = indices[row + column] as number;
  return labels;
}

interface Taps {
  readonly from: number;
  readonly weights: readonly number[];
}

/** The voxels that contribute to each pixel along an axis: two when enlarging, all that a pixel covers when reducing. */
function tapsOf(axis: Axis, pixel: number): Taps[] {
  const radius = Math.max(1, pixel / axis.spacing);
  return middlesOf(axis, pixel).map((middle) => {
    const from = Math.max(0, Math.ceil(middle - radius));
    const to = Math.min(axis.count - 1, Math.floor(middle + radius));
    const raw = Array.from({ length: to - from + 1 }, (_, at) =>
      Math.max(0, 1 - Math.abs(from + at - middle) / radius),
    );
    const sum = raw.reduce((all, each) => all + each, 0);
    return { from, weights: raw.map((each) => each / sum) };
  });
}

/**
 * The brightness of a picture, interpolated between voxels.
 * @param values brightness of each voxel of a slice, 0 to 255, `components` values each
 */
export function brightnessOf(values: Uint8Array, raster: Raster, components: number): Uint8Array {
  const [strideAcross, strideDown] = stridesOf(raster);
  const [columns, rows] = [tapsOf(raster.across, raster.pixel), tapsOf(raster.down, raster.pixel)];
  const width = columns.length;
  const { count } = raster.down;
  const pixels = new Uint8Array(width * rows.length * components);
  const between = new Float32Array(width * count);
  for (let part = 0; part < components; part += 1) {
    for (let row = 0; row < count; row += 1) {
      for (let x = 0; x < width; x += 1) {
        const { from, weights } = columns[x] as Taps;
        let sum = 0;
        for (let tap = 0; tap < weights.length; tap += 1) {
          const voxel = row * strideDown + (from + tap) * strideAcross;
          sum += (weights[tap] as number) * (values[voxel * components + part] as number);
        }
        between[row * width + x] = sum;
      }
    }
    rows.forEach(({ from, weights }, y) => {
      for (let x = 0; x < width; x += 1) {
        let sum = 0;
        for (let tap = 0; tap < weights.length; tap += 1)
          sum += (weights[tap] as number) * (between[(from + tap) * width + x] as number);
        pixels[(y * width + x) * components + part] = Math.round(sum);
      }
    });
  }
  return pixels;
}
