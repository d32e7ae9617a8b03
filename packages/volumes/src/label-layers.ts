import path from 'node:path';
import { longString } from './derived-object.js';
import { type Placing, placeOnGrid } from './onto-grid.js';
import type { Segment } from './segments.js';
import { type Geometry, VolumeError, type VolumeFile } from './volume.js';

/** A label map with what its labels are called. Segments that overlap lie in several of these. */
export interface LabelLayer {
  readonly mask: VolumeFile;
  /** Which of the frames of a file of several; the first one if it is not given. */
  readonly frame?: number;
  readonly segments: readonly Segment[];
}

/**
 * Places a layer on a grid.
 * @param strictly what messages call the grid, if a mask on another one is refused; otherwise the nearest voxels are taken
 * @throws VolumeError
 */
export function placeLayer(
  { mask, frame, segments }: LabelLayer,
  grid: Geometry,
  strictly: string | null,
): { readonly placing: Placing; readonly segments: readonly Segment[] } {
  const chosen: VolumeFile =
    frame === undefined
      ? mask
      : { ...mask, frames: 1, slices: (choice) => mask.slices({ ...choice, frame }) };
  const placing = placeOnGrid(chosen, grid);
  if (strictly !== null && !placing.isExact)
    throw new VolumeError(`${path.basename(mask.path)} lies on another grid than ${strictly}.`);
  return { placing, segments };
}

/** What a label is called: as the app says, otherwise `Label 3`. */
export function namedSegment(segments: readonly Segment[], value: number): Segment {
  const known = segments.find((each) => each.value === value);
  const name = longString(known?.name ?? '') || `Label ${value}`;
  return { value, name, color: known?.color ?? null, snomed: known?.snomed ?? null };
}
