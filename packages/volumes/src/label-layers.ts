import path from 'node:path';
import { longString } from './derived-object.js';
import { placeOnGrid } from './onto-grid.js';
import type { Segment } from './segments.js';
import { type Geometry, VolumeError, type VolumeFile } from './volume.js';

/** A label map and its segments. Overlapping segments are in different layers. */
export interface LabelLayer {
  readonly mask: VolumeFile;
  readonly segments: readonly Segment[];
}

/**
 * Places layers on a grid.
 * @param isStrict whether a mask on another grid is refused; otherwise the nearest voxels are taken
 * @throws VolumeError
 */
export function placeLayers(
  layers: readonly LabelLayer[],
  grid: Geometry & { readonly name: string },
  isStrict: boolean,
) {
  const placings = layers.map(({ mask }) => placeOnGrid(mask, grid));
  const isExact = placings.every((placing) => placing.isExact);
  const other = layers.find((_, at) => placings[at]?.isExact === false);
  if (isStrict && other)
    throw new VolumeError(`${path.basename(other.mask.path)} lies on another grid than ${grid.name}.`);
  return { placings, isExact, isByNumber: placings.some((placing) => placing.isByNumber) };
}

/** The segment of a label, which is called `Label 3` unless the app names it. */
export function namedSegment(segments: readonly Segment[], value: number): Segment {
  const known = segments.find((each) => each.value === value);
  const name = longString(known?.name ?? '') || `Label ${value}`;
  return { value, name, color: known?.color ?? null, snomed: known?.snomed ?? null };
}
