import path from 'node:path';
import { misplacedGrid } from './gantry-tilt.js';
import { type AxisOrder, orderOf } from './grid-axes.js';
import {
  type Affine,
  type AffineRow,
  arrayLike,
  type Geometry,
  inverseOf,
  type Slice,
  VolumeError,
  type VolumeFile,
  type Voxels,
} from './volume.js';

/** Maximum deviation of a label from an integer: scaled values are slightly off. */
const tolerance = 0.01;

/** A label map placed on another grid. */
export interface Placing {
  /** Whether every voxel of the label map coincides with a voxel of the grid. Otherwise the nearest voxels are taken. */
  readonly isExact: boolean;
  /** Whether slices are matched by number, because a program misplaced the slices of a tilted gantry. */
  readonly isByNumber: boolean;
  /**
   * Yields the slices of the grid that the label map covers, in reading order. Each overwrites the values of the previous one.
   */
  slices(): AsyncGenerator<LabelSlice, void, undefined>;
}

/** A slice of labels. */
export interface LabelSlice extends Slice {
  readonly values: Uint8Array | Uint16Array;
}

/**
 * Places a label map on a grid by position, never by the shape or order of the arrays. A label map whose slices coincide with
 * those of the grid is read slice by slice; any other is read into memory, with one or two bytes for each voxel.
 * @throws VolumeError if a tilted gantry makes its position uncertain; when slices are read, for axes without a direction and
 *   for values that are not labels
 */
export function placeOnGrid(mask: VolumeFile, grid: Geometry): Placing {
  if (mask.components !== 1 || mask.frames !== 1)
    throw new VolumeError(`${mask.path} has several values in a voxel: it is not a label map.`);
  const isExact = liesOnGrid(mask, grid);
  const misplaced = isExact ? null : misplacedGrid(mask, grid);
  const at = misplaced ?? grid;
  const axes = orderOf(mask, at);
  const how = { isExact, isByNumber: misplaced !== null };
  if (axes && axes[2].axis === 2)
    return { ...how, slices: () => sliceBySlice(mask, at, axes, labelReader(mask)) };
  return { ...how, slices: () => nearest(mask, at, labelReader(mask)) };
}

/** Whether every voxel of a volume coincides with one of the grid. */
export const liesOnGrid = (volume: Geometry, grid: Geometry): boolean => orderOf(volume, grid) !== null;

/**
 * Yields the slices of a volume with any values on a grid with the same voxels, in whatever order its axes run.
 * @throws VolumeError for a volume on another grid
 */
export function slicesOnGrid(volume: VolumeFile, grid: Geometry & { readonly name: string }) {
  const axes = orderOf(volume, grid);
  const isWhole = axes?.every(({ axis }, at) => volume.size[axis] === grid.size[at]);
  if (!axes || !isWhole)
    throw new VolumeError(`${path.basename(volume.path)} lies on another grid than ${grid.name}.`);
  const asTheyAre = (values: Voxels) => values;
  if (axes[2].axis === 2) return sliceBySlice(volume, grid, axes, asTheyAre);
  return nearest(volume, grid, asTheyAre);
}

/** The affine from indices of the grid to indices of the mask. */
function toIndices(mask: Geometry & { readonly path: string }, grid: Geometry): Affine {
  const inverse = inverseOf(mask.affine);
  if (!inverse) throw new VolumeError(`${mask.path} has axes without a direction.`);
  return inverse.map(([x, y, z, offset]) =>
    [0, 1, 2, 3].map(
      (column) =>
        x * (grid.affine[0][column] ?? 0) +
        y * (grid.affine[1][column] ?? 0) +
        z * (grid.affine[2][column] ?? 0) +
        (column === 3 ? offset : 0),
    ),
  ) as unknown as Affine;
}

/** Reads a volume slice by slice; its slices must lie in slices of the grid. */
async function* sliceBySlice<V extends Voxels>(
  volume: VolumeFile,
  grid: Geometry,
  [x, y, z]: readonly [AxisOrder, AxisOrder, AxisOrder],
  read: (values: Voxels) => V,
): AsyncGenerator<{ readonly k: number; readonly values: V }, void, undefined> {
  const [ni] = volume.size;
  const stride = ({ axis }: AxisOrder) => (axis === 0 ? 1 : ni);
  const [columns, rows] = grid.size;
  const [across, down] = [volume.size[x.axis] ?? 0, volume.size[y.axis] ?? 0];
  const isPlain = x.axis === 0 && x.sign === 1 && y.sign === 1 && across === columns && down === rows;
  const put = (values: V): V => {
    if (isPlain) return values;
    const plane = arrayLike(values, columns * rows) as V;
    for (let b = 0; b < down; b += 1) {
      let to = (y.start + y.sign * b) * columns + x.start;
      let from = b * stride(y);
      for (let a = 0; a < across; a += 1, to += x.sign, from += stride(x)) plane[to] = values[from] ?? 0;
    }
    return plane;
  };
  for await (const { k, values } of volume.slices())
    yield { k: z.start + z.sign * k, values: put(read(values)) };
}

/** Reads a volume into memory and resamples it to the grid by nearest neighbour. */
async function* nearest<V extends Voxels>(
  volume: VolumeFile,
  grid: Geometry,
  read: (values: Voxels) => V,
): AsyncGenerator<{ readonly k: number; readonly values: V }, void, undefined> {
  const [ni, nj, nk] = volume.size;
  let all: V | null = null;
  for await (const { k, values } of volume.slices()) {
    const next = read(values);
    const before: V | null = all;
    // Bytes become words when a label needs them.
    if (before === null || next.BYTES_PER_ELEMENT > before.BYTES_PER_ELEMENT) {
      all = arrayLike(next, ni * nj * nk) as V;
      if (before !== null) all.set(before);
    }
    all?.set(next, k * ni * nj);
  }
  if (all !== null) yield* nearestOnGrid(volume, all, grid);
}

/**
 * Yields slices of a grid with the values of the nearest voxels of a volume, or 0 outside it.
 * @param only the slices to yield; all by default
 * @throws VolumeError for a volume whose axes have no direction
 */
export async function* nearestOnGrid<V extends Voxels>(
  volume: Geometry & { readonly path: string },
  data: V,
  grid: Geometry,
  only?: readonly number[],
): AsyncGenerator<{ readonly k: number; readonly values: V }, void, undefined> {
  const [a, b, c] = toIndices(volume, grid);
  const [ni, nj, nk] = volume.size;
  const [columns, rows, slices] = grid.size;
  const values = arrayLike(data, columns * rows) as V;
  for (const k of only ?? Array.from({ length: slices }, (_, index) => index)) {
    let to = 0;
    for (let j = 0; j < rows; j += 1) {
      const startOf = (row: AffineRow) => row[1] * j + row[2] * k + row[3] + 0.5;
      const [i0, j0, k0] = [startOf(a), startOf(b), startOf(c)];
      for (let i = 0; i < columns; i += 1, to += 1) {
        const u = Math.floor(a[0] * i + i0);
        const v = Math.floor(b[0] * i + j0);
        const w = Math.floor(c[0] * i + k0);
        const isInside = u >= 0 && u < ni && v >= 0 && v < nj && w >= 0 && w < nk;
        values[to] = isInside ? (data[(w * nj + v) * ni + u] as number) : 0;
      }
    }
    yield { k, values };
  }
}

/**
 * Returns a function that converts values to labels, in bytes or, once a label needs it, in 16-bit words. Each call overwrites
 * the previous labels.
 */
export function labelReader(mask: VolumeFile): (values: Voxels) => Uint8Array | Uint16Array {
  let buffer: Uint8Array | Uint16Array | null = null;
  const labelOf = (value: number): number => {
    if (Number.isNaN(value)) return 0;
    const label = Math.round(value);
    if (Math.abs(value - label) <= tolerance && label >= 0 && label <= 0xffff) return label;
    throw new VolumeError(
      `${path.basename(mask.path)} has the value ${value}, which is not a label: labels are whole numbers from 0 to 65535.`,
    );
  };
  return (values) => {
    if (values instanceof Uint8Array || values instanceof Uint16Array) return values;
    let labels = buffer ?? new Uint8Array(values.length);
    let last = Number.NaN;
    let label = 0;
    for (let at = 0; at < values.length; at += 1) {
      const value = values[at] as number;
      if (value !== last) {
        [last, label] = [value, labelOf(value)];
        if (label > 255 && labels instanceof Uint8Array) labels = Uint16Array.from(labels);
      }
      labels[at] = label;
    }
    buffer = labels;
    return labels;
  };
}
