import type { DataSet } from 'dicom-parser';
import type { PixelFormat } from './dicom-pixels.js';
import { dot, itemOf, normalOf, numberOf, numbersOf, usualStep } from './headers/index.js';
import { type Affine, VolumeError } from './volume.js';

/** Where an image lies. Null for what the file does not say. */
export interface Place {
  /** What messages call it. */
  readonly name: string;
  /** Columns and rows. */
  readonly size: readonly number[];
  /** Of the centre of the first pixel, in mm, to the left, to the back and upwards (ImagePositionPatient). */
  readonly position: readonly number[] | null;
  /** Directions of its rows and columns (ImageOrientationPatient). */
  readonly orientation: readonly number[] | null;
  /** Millimetres between rows, and between columns (PixelSpacing). */
  readonly pixelSpacing: readonly number[] | null;
  readonly thickness: number | null;
}

const perFrameGroups = 'x52009230';

/** Whether a file says of each of its frames where it lies (an enhanced file). */
export const hasGroups = (set: DataSet): boolean => Boolean(set.elements[perFrameGroups]);

/** Where the item of a functional group is: that of the frame, that of all frames, or the data set itself. */
export const groupOf = (set: DataSet, index: number, tag: string): DataSet =>
  itemOf(itemOf(set, perFrameGroups, index), tag) ?? itemOf(itemOf(set, 'x52009229'), tag) ?? set;

/** Where the frames of a file lie (PS3.3, C.7.6.16; of doses, C.8.8.3.2). */
export function placesOf(set: DataSet, { name, rows, columns, frames }: PixelFormat): Place[] {
  const offsets = frames > 1 ? numbersOf(set, 'x3004000c') : null;
  return Array.from({ length: frames }, (_, index) => {
    const measures = groupOf(set, index, 'x00289110');
    const orientation = numbersOf(groupOf(set, index, 'x00209116'), 'x00200037');
    const at = numbersOf(groupOf(set, index, 'x00209113'), 'x00200032');
    const offset = offsets?.[index];
    let position = at;
    if (offset !== undefined && at && orientation?.length === 6) {
      const normal = normalOf(orientation);
      position = at.map((value, axis) => value + (normal[axis] ?? 0) * (offset - (offsets?.[0] ?? 0)));
    } else if (frames > 1 && !hasGroups(set)) position = null; // The one position is that of the first frame.
    return {
      name: frames === 1 ? name : `frame ${index + 1} of ${name}`,
      size: [columns, rows],
      position,
      orientation,
      pixelSpacing: numbersOf(measures, 'x00280030'),
      thickness: numberOf(measures, 'x00180050'),
    };
  });
}

/** How far a distance between slices may be from the usual one. Scanners round positions: 1 % is common; a gap is 100 %. */
const tolerance = 0.05;

/** The axes that images share. */
interface Grid {
  /** How far along the normal an image lies, in mm. */
  readonly depthOf: (place: Place) => number;
  /** Where voxels lie, from the images in order, and the way from one to the next, in mm. */
  readonly affineOf: (places: readonly Place[], step: readonly number[]) => Affine;
}

/**
 * The axes that images share.
 * @throws VolumeError for images without a place, and for those that are turned against each other or of another size
 */
export function gridOf(places: readonly Place[]): Grid {
  for (const place of places) requirePlace(place);
  const [first] = places;
  if (!first) throw new RangeError('There are no images.');
  for (const place of places) {
    requireSame(first, place, 'size', 'rows or columns', 0);
    requireSame(first, place, 'orientation', 'orientation', 1e-3);
    requireSame(first, place, 'pixelSpacing', 'pixel spacing', 1e-3);
  }
  const row = (first.orientation ?? []).slice(0, 3);
  const column = (first.orientation ?? []).slice(3);
  const [betweenRows = 1, betweenColumns = 1] = first.pixelSpacing ?? [];
  const normal = normalOf(first.orientation ?? []);
  return {
    depthOf: ({ position }) => dot(position ?? [], normal),
    affineOf: ([start], step) => {
      // DICOM counts to the left and to the back.
      const rows = [-1, -1, 1].map((sign, axis) => [
        sign * (row[axis] ?? 0) * betweenColumns,
        sign * (column[axis] ?? 0) * betweenRows,
        sign * (step[axis] ?? 0),
        sign * (start?.position?.[axis] ?? 0),
      ]);
      return rows.map((values) => values.map((value) => value + 0)) as unknown as Affine;
    },
  };
}

/**
 * A guess of where a slice lies, by its number or its file's name, can turn the head upside down, and a guess of the
 * distances changes every volume in millilitres. A radiologist wants no such result: it looks as good as a right one.
 */
function requirePlace({ name, position, orientation, pixelSpacing }: Place): void {
  const needed: [string, boolean][] = [
    ['position (Image Position Patient)', position?.length === 3],
    ['orientation (Image Orientation Patient)', orientation?.length === 6 && isSquare(orientation)],
    ['pixel spacing', pixelSpacing?.length === 2 && Math.min(...pixelSpacing) > 0],
  ];
  const missing = needed.find(([, isThere]) => !isThere)?.[0];
  if (missing)
    throw new VolumeError(
      `${name} has no ${missing}, so that the slices have no certain order and size: export the series again with it, or convert it to NIfTI.`,
    );
}

/** Whether these are two directions at right angles. */
function isSquare(orientation: readonly number[]): boolean {
  const [row, column] = [orientation.slice(0, 3), orientation.slice(3)];
  const isUnit = (way: number[]) => Math.abs(dot(way, way) - 1) < 0.02;
  return isUnit(row) && isUnit(column) && Math.abs(dot(row, column)) < 0.02;
}

function requireSame(
  one: Place,
  other: Place,
  field: 'size' | 'orientation' | 'pixelSpacing',
  words: string,
  most: number,
): void {
  const [a, b] = [one[field] ?? [], other[field] ?? []];
  if (a.every((value, index) => Math.abs(value - (b[index] ?? 0)) <= most)) return;
  throw new VolumeError(
    `${one.name} and ${other.name} differ in ${words} (${a.join(' ')} against ${b.join(' ')}): give each series its own directory, without localizers.`,
  );
}

/** The way from slice to slice; refuses slices that are missing, or shifted against each other. */
export function evenStep<P extends Place>(images: readonly P[], depthOf: (place: Place) => number): number[] {
  const [first] = images;
  const last = images.at(-1);
  if (!first || !last) return [];
  if (first === last) return normalStep(first, requireThickness(first));
  const steps = images.slice(1).flatMap((to, index) => {
    const from = images[index];
    if (!from) return [];
    const length = depthOf(to) - depthOf(from);
    const way = wayTo(from, to);
    return [{ from, to, length, shift: Math.sqrt(Math.max(0, dot(way, way) - length ** 2)) }];
  });
  const usual = usualStep(steps.map(({ length }) => length));
  const uneven = steps.find(({ length }) => Math.abs(length - usual) > tolerance * usual);
  if (uneven)
    throw new VolumeError(
      `Between ${uneven.from.name} and ${uneven.to.name} are ${uneven.length.toFixed(2)} mm, between other slices ${usual.toFixed(2)} mm: a slice is missing or belongs elsewhere. Send the whole series, of even distances.`,
    );
  const shifted = steps.find(({ length, shift }) => shift > tolerance * length);
  if (shifted)
    throw new VolumeError(
      `${shifted.to.name} is shifted by ${shifted.shift.toFixed(2)} mm against ${shifted.from.name} (a tilted gantry): resample the series to straight slices.`,
    );
  return wayTo(first, last).map((value) => value / steps.length);
}

const wayTo = (from: Place, to: Place): number[] =>
  (to.position ?? []).map((value, axis) => value - (from.position?.[axis] ?? 0));

/** So many millimetres along the normal of an image. */
export const normalStep = ({ orientation }: Place, length: number): number[] =>
  normalOf(orientation ?? []).map((value) => value * length);

function requireThickness({ name, thickness }: Place): number {
  if (thickness !== null && thickness > 0) return thickness;
  throw new VolumeError(`${name} is a single slice and has no thickness: give the whole series.`);
}

/** Whether an image lies straight above or below another, as the slices of a volume do. */
export function isStraight(one: Place, other: Place, step: number): boolean {
  const way = wayTo(one, other);
  const length = dot(way, normalStep(one, 1));
  return Math.sqrt(Math.max(0, dot(way, way) - length ** 2)) <= tolerance * Math.max(Math.abs(length), step);
}
