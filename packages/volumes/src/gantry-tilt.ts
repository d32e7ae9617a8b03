import path from 'node:path';
import { orderOf } from './grid-axes.js';
import { cross, dot } from './headers/dicom-stack.js';
import {
  type Affine,
  type Geometry,
  inverseOf,
  placeOf,
  spacingOf,
  VolumeError,
  type VolumeFile,
} from './volume.js';

/**
 * The misplaced grid of a label map made from a tilted series; null if the label map lies where its affine says. ITK stacks
 * tilted slices perpendicularly above the first one, spaced by the distance of their centres. dcm2niix places them along the
 * slant, spaced by the distance of their planes, in the file without `_Tilt` in its name. A program that resamples the series
 * properly produces a grid that covers the whole series, which misplaced slices or parts of them do not.
 * @throws VolumeError if it is uncertain whether the grid is misplaced
 */
export function misplacedGrid(mask: VolumeFile, grid: Geometry): Geometry | null {
  const [betweenColumns, betweenRows, step] = spacingOf(grid);
  const normal = normalTo(grid);
  const way = grid.affine.map((row) => row[2]);
  const between = dot(way, normal);
  const slant = Math.sqrt(Math.max(0, step ** 2 - between ** 2));
  // A tilt of less than a pixel makes no difference.
  if (slant * (grid.size[2] - 1) < Math.min(betweenColumns, betweenRows)) return null;
  const straight = (length: number) =>
    movedAlong(
      grid,
      normal.map((part) => part * length),
    );
  const slanted = movedAlong(
    grid,
    way.map((part) => (part * between) / step),
  );
  const isWhole = mask.size.toSorted(ascending).join() === grid.size.toSorted(ascending).join();
  const found = [straight(step), slanted].find((each) => isWhole && orderOf(mask, each) !== null);
  // Perpendicular slices at the distance of the planes may be a resampled series.
  if (found && !orderOf(mask, straight(between))) return found;
  if (reachesOver(mask, grid)) return null;
  throw new VolumeError(
    `${path.basename(mask.path)} does not reach over all of the scan, whose slices are those of a tilted gantry, each ${slant.toFixed(2)} mm further aside: the program that made it may have placed them wrongly, so it is uncertain where its labels lie. Give the program the scan as NIfTI, or resampled to straight slices that hold all of it.`,
  );
}

const ascending = (one: number, other: number): number => one - other;

/** The unit normal of the slices of a grid, towards higher slice numbers. */
function normalTo({ affine }: Geometry): number[] {
  const [i = [], j = [], k = []] = [0, 1, 2].map((axis) => affine.map((row) => row[axis] ?? 0));
  const across = cross(i, j);
  const length = Math.hypot(...across) * Math.sign(dot(across, k));
  return across.map((part) => part / length);
}

/** The grid with another step from slice to slice. */
function movedAlong(grid: Geometry, way: readonly number[]): Geometry {
  const affine = grid.affine.map(([i, j, , offset], axis) => [
    i,
    j,
    way[axis] ?? 0,
    offset,
  ]) as unknown as Affine;
  return { size: grid.size, affine };
}

/** Whether a volume covers every corner of a grid, to within a voxel. */
function reachesOver(volume: Geometry, grid: Geometry): boolean {
  const inverse = inverseOf(volume.affine);
  if (!inverse) return false;
  return Array.from({ length: 8 }, (_, corner) => {
    const [i = 0, j = 0, k = 0] = grid.size.map((count, axis) => (corner & (1 << axis) ? count - 1 : 0));
    return placeOf({ affine: inverse }, ...placeOf(grid, i, j, k));
  }).every((place) => place.every((index, axis) => index > -1 && index < (volume.size[axis] ?? 0)));
}
