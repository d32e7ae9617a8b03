import { type Geometry, inverseOf, placeOf, type Size, spacingOf } from './volume.js';

/** Maximum distance between the centres of two voxels at the same place, as a fraction of a voxel. */
const samePlace = 0.05;

/** How an axis of a mask maps to an axis of the grid: which one, in which direction, and from where. */
export interface AxisOrder {
  readonly axis: number;
  readonly sign: 1 | -1;
  /** Grid index of the first voxel of the mask. */
  readonly start: number;
}

/** How the axes of a mask map to those of a grid; null unless all voxels of the mask coincide with voxels of the grid. */
export function orderOf(mask: Geometry, grid: Geometry): readonly [AxisOrder, AxisOrder, AxisOrder] | null {
  const inverse = inverseOf(grid.affine);
  if (!inverse) return null;
  const indexOf = (i: number, j: number, k: number) =>
    placeOf({ affine: inverse }, ...placeOf(mask, i, j, k));
  const origin = indexOf(0, 0, 0);
  const steps = [indexOf(1, 0, 0), indexOf(0, 1, 0), indexOf(0, 0, 1)].map((to) =>
    to.map((value, axis) => Math.round(value - (origin[axis] ?? 0))),
  );
  const order = [0, 1, 2].map((axis): AxisOrder | null => {
    const along = steps.findIndex((step) => Math.abs(step[axis] ?? 0) === 1);
    const sign = steps[along]?.[axis] === -1 ? -1 : 1;
    return along === -1 ? null : { axis: along, sign, start: Math.round(origin[axis] ?? 0) };
  });
  const [x, y, z] = order;
  if (!x || !y || !z || new Set([x.axis, y.axis, z.axis]).size < 3) return null;
  const all = [x, y, z] as const;
  // It suffices to compare the corners.
  const tolerance = samePlace * Math.min(...spacingOf(grid));
  for (let corner = 0; corner < 8; corner += 1) {
    const at = mask.size.map((count, axis) => (corner & (1 << axis) ? count - 1 : 0)) as unknown as Size;
    const wanted = all.map(({ axis, sign, start }) => start + sign * (at[axis] ?? 0)) as unknown as Size;
    if (wanted.some((index, axis) => index < 0 || index >= (grid.size[axis] ?? 0))) return null;
    const [here, there] = [placeOf(mask, ...at), placeOf(grid, ...wanted)];
    if (Math.hypot(here[0] - there[0], here[1] - there[1], here[2] - there[2]) > tolerance) return null;
  }
  return all;
}
