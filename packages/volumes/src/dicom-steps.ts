import type { Place } from './dicom-places.js';
import { dot, normalOf, usualStep } from './headers/dicom-stack.js';
import { VolumeError } from './volume.js';

/** Maximum relative deviation of a slice distance from the usual one. Scanners round by about 1 %; a gap is 100 %. */
const tolerance = 0.05;

/**
 * Maximum deviation of rounded positions from even ones, as a fraction of the slice distance; larger if the file gives the
 * distance.
 */
const [maxOff, maxOffGiven] = [0.19, 0.5];

/**
 * The rounding of positions in mm, along and across the normal: one unit of the last decimal, on axes on which positions differ.
 */
export function roundingOf(places: readonly Place[]): { readonly along: number; readonly across: number } {
  const normal = normalOf(places[0]?.orientation ?? []);
  const units = [0, 1, 2].map((axis) => {
    if (places.every(({ position }) => position?.[axis] === places[0]?.position?.[axis])) return 0;
    const digits = places.reduce((all, { decimals }) => Math.max(all, decimals?.[axis] ?? 15), 0);
    return 10 ** -digits;
  });
  return {
    along: units.reduce((sum, unit, axis) => sum + unit * Math.abs(normal[axis] ?? 0), 0),
    across: Math.hypot(
      ...units.map((unit, axis) => unit * Math.sqrt(Math.max(0, 1 - (normal[axis] ?? 0) ** 2))),
    ),
  };
}

/**
 * Whether slices are evenly spaced except for rounding: 0.0, 0.6, 1.3, 1.9 are slices of 0.625 mm. They lie within half a unit of
 * the last decimal of a straight line, and closer to it than they would if one were missing.
 */
export function isEvenRounded(depths: readonly number[], first: Place, rounding: number): boolean {
  const { length } = depths;
  const mean = depths.reduce((sum, depth) => sum + depth, 0) / length;
  const middle = (length - 1) / 2;
  const squares = depths.reduce((sum, _, at) => sum + (at - middle) ** 2, 0);
  const step = depths.reduce((sum, depth, at) => sum + (at - middle) * (depth - mean), 0) / squares;
  const isGiven = [first.between, first.thickness].some(
    (given) => given !== null && Math.abs(Math.abs(given) - step) <= tolerance * step,
  );
  // More than half a unit, because the least-squares line does not minimise the largest deviation.
  const limit = Math.min(0.6 * rounding, step * (isGiven ? maxOffGiven : maxOff));
  return depths.every((depth, at) => Math.abs(depth - mean - (at - middle) * step) <= limit);
}

/** The step from slice to slice, straight or slanted. @throws VolumeError for missing or unevenly shifted slices */
export function evenStep<P extends Place>(images: readonly P[], depthOf: (place: Place) => number): number[] {
  const [first] = images;
  const last = images.at(-1);
  if (!first || !last) return [];
  if (first === last) return normalStep(first, requireThickness(first));
  const steps = images.slice(1).flatMap((to, index) => {
    const from = images[index];
    if (!from) return [];
    return [{ from, to, length: depthOf(to) - depthOf(from) }];
  });
  const rounding = roundingOf(images);
  const usual = usualStep(steps.map(({ length }) => length));
  const uneven = steps.find(({ length }) => Math.abs(length - usual) > tolerance * usual);
  if (uneven && !isEvenRounded(images.map(depthOf), first, rounding.along))
    throw new VolumeError(
      `Between ${uneven.from.name} and ${uneven.to.name} are ${uneven.length.toFixed(2)} mm, between other slices ${usual.toFixed(2)} mm: a slice is missing or belongs elsewhere. Send the whole series, of even distances.`,
    );
  const way = wayTo(first, last).map((value) => value / steps.length);
  const line = { first, way, step: usual, rounding: rounding.across };
  const aside = images.find((image, k) => !isOnLine(line, image, k));
  if (aside)
    throw new VolumeError(
      `${aside.name} lies beside the line from ${first.name} to ${last.name}, on which the slices of a volume lie: these are shifted against each other. Give each stack of slices its own directory, or resample the series.`,
    );
  return way;
}

/** The line on which the slices of a volume lie. With a tilted gantry, it is not perpendicular to them. */
interface Line {
  readonly first: Place;
  /** From slice to slice, in mm. */
  readonly way: readonly number[];
  /** The distance between slices, in mm. */
  readonly step: number;
  /** The rounding of positions across the normal, in mm. */
  readonly rounding: number;
}

/** Whether an image lies on the line where slice k belongs. */
export function isOnLine({ first, way, step, rounding }: Line, image: Place, k: number): boolean {
  const off = wayTo(first, image).map((value, axis) => value - k * (way[axis] ?? 0));
  const along = dot(off, normalStep(first, 1));
  return Math.sqrt(Math.max(0, dot(off, off) - along ** 2)) <= tolerance * step + rounding;
}

const wayTo = (from: Place, to: Place): number[] =>
  (to.position ?? []).map((value, axis) => value - (from.position?.[axis] ?? 0));

/** A step of `length` mm along the normal of an image. */
export const normalStep = ({ orientation }: Place, length: number): number[] =>
  normalOf(orientation ?? []).map((value) => value * length);

function requireThickness({ name, thickness }: Place): number {
  if (thickness !== null && thickness > 0) return thickness;
  throw new VolumeError(`${name} is a single slice and has no thickness: give the whole series.`);
}
