import type { DataSet } from 'dicom-parser';
import { readNumber, readNumbers } from './dicom-numbers.js';
import type { PixelFormat } from './dicom-pixels.js';
import { itemOf, wordsOf } from './headers/dicom-parse.js';
import { dot, normalOf } from './headers/dicom-stack.js';
import { type Affine, damaged, VolumeError } from './volume.js';

/** Where an image lies in space. Values that the file does not give are null. */
export interface Place {
  /** The name in messages. */
  readonly name: string;
  /** Columns and rows. */
  readonly size: readonly number[];
  /** The centre of the first pixel in mm, in LPS+ (ImagePositionPatient). */
  readonly position: readonly number[] | null;
  /** Directions of its rows and columns (ImageOrientationPatient). */
  readonly orientation: readonly number[] | null;
  /** Millimetres between rows, and between columns (PixelSpacing). */
  readonly pixelSpacing: readonly number[] | null;
  readonly thickness: number | null;
  /** SpacingBetweenSlices, in mm. */
  readonly between: number | null;
  /** Number of decimals in each coordinate of the position, as written; null if the position was computed. */
  readonly decimals: readonly number[] | null;
}

const perFrameGroups = 'x52009230';

/** Whether a file describes each of its frames (an enhanced file). */
export const hasGroups = (set: DataSet): boolean => Boolean(set.elements[perFrameGroups]);

/** The item of a functional group: per-frame, otherwise shared, otherwise the data set itself. */
export const groupOf = (set: DataSet, index: number, tag: string): DataSet =>
  itemOf(itemOf(set, perFrameGroups, index), tag) ?? itemOf(itemOf(set, 'x52009229'), tag) ?? set;

/** Number of decimals of each number in a text: 1 for `0.6`, 3 for `1.25e-1`. */
function decimalsOf(set: DataSet, tag: string): number[] | null {
  const words = wordsOf(set, tag)?.split('\\');
  return (
    words?.map((text) => {
      const [mantissa = '', exponent = '0'] = text.trim().toLowerCase().split('e');
      return Math.max(0, (mantissa.split('.')[1] ?? '').length - Number(exponent));
    }) ?? null
  );
}

/**
 * Where the frames of a file lie (PS3.3, C.7.6.16; of doses, C.8.8.3.2; of NM, C.8.4.15).
 * @throws VolumeError for a file that does not describe each of its frames, and for texts that are not numbers
 */
export function placesOf(set: DataSet, { name, rows, columns, frames }: PixelFormat): Place[] {
  const described = set.elements[perFrameGroups]?.items?.length;
  if (described !== undefined && described < frames)
    throw damaged(`${name} describes ${described} of its ${frames} frames: it is cut short or damaged.`);
  const offsets = frames > 1 ? readNumbers(set, 'x3004000c', name) : null;
  const detectors = frames > 1 && !hasGroups(set) ? detectorPlaces(set, name, frames) : null;
  return Array.from({ length: frames }, (_, index) => {
    const measures = groupOf(set, index, 'x00289110');
    const positions = groupOf(set, index, 'x00209113');
    const detector = detectors?.(index);
    const orientation =
      detector?.orientation ?? readNumbers(groupOf(set, index, 'x00209116'), 'x00200037', name);
    const at = readNumbers(positions, 'x00200032', name);
    const offset = offsets?.[index];
    let position: readonly number[] | null = at;
    let decimals: readonly number[] | null = decimalsOf(positions, 'x00200032');
    if (detector) [position, decimals] = [detector.position, null];
    else if (offset !== undefined && at && orientation?.length === 6) {
      position = along(at, orientation, offset - (offsets?.[0] ?? 0));
      decimals = null;
    } else if (frames > 1 && !hasGroups(set)) position = null; // The one position is that of the first frame.
    return {
      name: frames === 1 ? name : `frame ${index + 1} of ${name}`,
      size: [columns, rows],
      position,
      orientation,
      pixelSpacing: readNumbers(measures, 'x00280030', name),
      thickness: readNumber(measures, 'x00180050', name),
      between: readNumber(measures, 'x00180088', name),
      decimals,
    };
  });
}

/** Moves a position by `length` mm along the normal. */
function along(position: readonly number[], orientation: readonly number[], length: number): number[] {
  const normal = normalOf(orientation);
  return position.map((value, axis) => value + (normal[axis] ?? 0) * length);
}

type DetectorPlace = Pick<Place, 'position' | 'orientation'>;

/**
 * Where the frames of a reconstructed NM volume lie; null for anything else. The detector gives the position of the first slice,
 * the slice vector numbers the frames, and the sign of the spacing says on which side of the first slice the others lie.
 */
function detectorPlaces(
  set: DataSet,
  name: string,
  frames: number,
): ((index: number) => DetectorPlace) | null {
  const items = set.elements.x00540022?.items;
  if (!items || !/\\RECON/.test(wordsOf(set, 'x00080008') ?? '')) return null;
  const spacing = readNumber(set, 'x00180088', name);
  if (spacing === null || spacing === 0)
    throw new VolumeError(
      `${name} has no spacing between slices, so their direction is unknown: export it again with it, or convert it to NIfTI.`,
    );
  const { length = 0 } = set.elements.x00540080 ?? {};
  if (length > 0 && length < frames * 2)
    throw new VolumeError(
      `${name} does not say of each frame which slice it is (slice vector): export it again, or convert it to NIfTI.`,
    );
  return (index) => {
    const detector = (set.elements.x00540020 ? set.uint16('x00540020', index) : undefined) ?? 1;
    const item = items[detector - 1]?.dataSet ?? items[0]?.dataSet;
    const read = (tag: string) => readNumbers(item, tag, name) ?? readNumbers(set, tag, name);
    const [position, orientation] = [read('x00200032'), read('x00200037')];
    const slice = length > 0 ? (set.uint16('x00540080', index) ?? 1) - 1 : index;
    const isPlaced = position && orientation?.length === 6;
    return { orientation, position: isPlaced ? along(position, orientation, spacing * slice) : null };
  };
}

/** The axes that images share. */
interface Grid {
  /** Position of an image along the normal, in mm. */
  readonly depthOf: (place: Place) => number;
  /** The affine, from the images in order and the step from one to the next, in mm. */
  readonly affineOf: (places: readonly Place[], step: readonly number[]) => Affine;
}

/**
 * The axes that images share.
 * @throws VolumeError for images without a position, and for images of different orientation or size
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
      // From LPS+ to RAS+.
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
 * Refuses a slice without a position. Guessing the order from a number or a file name could turn a head upside down, and guessing
 * distances would change every volume in ml; the result would look as plausible as a correct one.
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
      `${name} has no ${missing}, so the order and distance of its slices are unknown: export the series again with it, or convert it to NIfTI.`,
    );
}

/** Whether an orientation consists of two perpendicular unit vectors. */
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
  tolerance: number,
): void {
  const [a, b] = [one[field] ?? [], other[field] ?? []];
  if (a.every((value, index) => Math.abs(value - (b[index] ?? 0)) <= tolerance)) return;
  throw new VolumeError(
    `${one.name} and ${other.name} differ in ${words} (${a.join(' ')} against ${b.join(' ')}): give each series its own directory, without localizers.`,
  );
}
