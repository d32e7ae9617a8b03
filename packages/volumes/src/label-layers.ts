import path from 'node:path';
import { longString } from './derived-object.js';
import { type Placing, placeOnGrid } from './onto-grid.js';
import type { Segment } from './segments.js';
import { type Geometry, VolumeError, type VolumeFile } from './volume.js';

/** A label map and its segments. Overlapping segments are in different layers. */
export interface LabelLayer {
  readonly mask: VolumeFile;
  readonly segments: readonly Segment[];
}

/**
 * Places a layer on a grid.
 * @param strictly the name of the grid in messages, if a mask on another grid is refused; null to take the nearest voxels
 * @throws VolumeError
 */
export function placeLayer(
  { mask, segments }: LabelLayer,
  grid: Geometry,
  strictly: string | null,
): { readonly placing: Placing; readonly segments: readonly Segment[] } {
  const placing = placeOnGrid(mask, grid);
  if (strictly !== null && !placing.isExact)
    throw new VolumeError(`${path.basename(mask.path)} lies on another grid than ${strictly}.`);
  return { placing, segments };
}

/** The segment of a label, which is called `Label 3` unless the app names it. */
export function namedSegment(segments: readonly Segment[], value: number): Segment {
  const known = segments.find((each) => each.value === value);
  const name = longString(known?.name ?? '') || `Label ${value}`;
  return { value, name, color: known?.color ?? null, snomed: known?.snomed ?? null };
}
