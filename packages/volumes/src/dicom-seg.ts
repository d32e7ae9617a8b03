import type { DataSet } from 'dicom-parser';
import { hexOfCieLab } from './cielab.js';
import { type DicomElements, openBytes } from './dicom-elements.js';
import { readNumber } from './dicom-numbers.js';
import { type PixelFormat, pixelFormatOf, readPixels } from './dicom-pixels.js';
import { gridOf, groupOf, type Place, placesOf } from './dicom-places.js';
import { isEvenRounded, isOnLine, normalStep, roundingOf } from './dicom-steps.js';
import { textOf } from './headers/dicom-header.js';
import { wordsOf } from './headers/dicom-parse.js';
import { damaged, type Label, type Slice, type SliceChoice, VolumeError, type VolumeFile } from './volume.js';

/** A frame: one segment in one slice, or all labels of a slice. */
interface SegmentFrame extends Place {
  readonly index: number;
  /** The segment number; null in a LABELMAP. */
  readonly segment: number | null;
}

/**
 * Opens a segmentation as one volume of segment numbers. If segments overlap, the highest number wins. The slices range from the
 * first to the last frame, and slices without a frame are empty.
 * @throws VolumeError for frames without a position or with uneven spacing, and for pixels that cannot be read
 */
export function segmentationOf(file: string, name: string, target: string, dicom: DicomElements): VolumeFile {
  const { set, deflatedFrom } = dicom;
  const type = wordsOf(set, 'x00620001') ?? 'BINARY';
  const format = pixelFormatOf(name, dicom, true);
  if (format.samples !== 1)
    throw new VolumeError(`${name} has colours instead of segments: convert it to NIfTI.`);
  const labels = labelsOf(set);
  const frames = placesOf(set, format).map((place, index) => ({
    ...place,
    index,
    segment: type === 'LABELMAP' ? null : segmentOf(set, index, name),
  }));
  const { depthOf, affineOf } = gridOf(frames);
  const depths = frames.map(depthOf).sort((a, b) => a - b);
  const first = frames.find((frame) => depthOf(frame) === depths[0]) ?? frames[0];
  if (!first) throw new VolumeError(`${name} has no frames.`);
  const rounding = roundingOf(frames);
  const step = stepOf(set, name, depths, first, rounding.along);
  const count = Math.round(((depths.at(-1) ?? 0) - (depths[0] ?? 0)) / step) + 1;
  if (count > maxSlices)
    throw damaged(
      `The frames of ${name} lie on ${count} slices, more than any scan has: its positions are damaged.`,
    );
  const way = wayOf(frames, first, depthOf, count, step);
  const line = { first, way, step, rounding: rounding.across };
  const slices: SegmentFrame[][] = Array.from({ length: count }, () => []);
  for (const frame of frames) {
    const k = Math.round((depthOf(frame) - (depths[0] ?? 0)) / step);
    if (!isOnLine(line, frame, k))
      throw new VolumeError(`${frame.name} is shifted against ${first.name}: resample the segmentation.`);
    slices[k]?.push(frame);
  }
  for (const slice of slices) slice.sort((a, b) => (a.segment ?? 0) - (b.segment ?? 0) || a.index - b.index);
  const isWide =
    type === 'LABELMAP' ? format.bitsAllocated > 8 : frames.some(({ segment }) => (segment ?? 0) > 255);
  const min = minValue(type, set);
  const source: Source = { file, deflatedFrom, format, slices, isWide, min, target };
  return {
    format: 'DICOM SEG',
    path: target,
    size: [format.columns, format.rows, slices.length],
    affine: affineOf([first], way),
    hasOrientation: true,
    components: 1,
    frames: 1,
    modality: 'SEG',
    labels,
    slices: (choice) => read(choice, source),
    // In a LABELMAP, labels cannot overlap.
    ...(type !== 'LABELMAP' && { layers: () => readSegments(source) }),
  };
}

/** The step from slice to slice: derived from the first and last frame, or along the normal for a single slice. */
function wayOf(
  frames: readonly Place[],
  first: Place,
  depthOf: (place: Place) => number,
  count: number,
  step: number,
): number[] {
  if (count === 1) return normalStep(first, step);
  const last = frames.reduce(
    (deepest, frame) => (depthOf(frame) > depthOf(deepest) ? frame : deepest),
    first,
  );
  return (last.position ?? []).map((value, axis) => (value - (first.position?.[axis] ?? 0)) / (count - 1));
}

/** More slices than any scan has. */
const maxSlices = 65_536;

interface Source {
  readonly file: string;
  readonly deflatedFrom: number | null;
  readonly format: PixelFormat;
  readonly slices: readonly (readonly SegmentFrame[])[];
  readonly isWide: boolean;
  readonly min: number;
  readonly target: string;
}

/** Yields the frames of slices, with a function that reads their pixels. */
async function* framesOf(source: Source, ks: Iterable<number>, time = 0) {
  const { file, deflatedFrom, format, slices, target } = source;
  await using bytes = await openBytes(file, deflatedFrom);
  for (const k of ks) {
    const frames = time === 0 ? slices[k] : undefined;
    if (!frames) throw new RangeError(`There is no slice ${k} of frame ${time} in ${target}.`);
    yield { k, frames, pixelsOf: ({ index }: SegmentFrame) => readPixels(bytes, format, index) };
  }
}

const planeOf = ({ format: { rows, columns }, isWide }: Source) =>
  new (isWide ? Uint16Array : Uint8Array)(rows * columns);

async function* read(choice: SliceChoice = {}, source: Source): AsyncGenerator<Slice, void, undefined> {
  const { only = source.slices.keys(), frame: time = 0 } = choice;
  const values = planeOf(source);
  for await (const { k, frames, pixelsOf } of framesOf(source, only, time)) {
    values.fill(0);
    for (const frame of frames) {
      const pixels = await pixelsOf(frame);
      for (let at = 0; at < values.length; at += 1) {
        const value = pixels[at] ?? 0;
        if (value >= source.min) values[at] = frame.segment ?? value;
      }
    }
    yield { k, values };
  }
}

/** Reads each segment of each slice separately. The frames of a slice are ordered by their segments. */
async function* readSegments(source: Source): AsyncGenerator<Slice, void, undefined> {
  const values = planeOf(source);
  for await (const { k, frames, pixelsOf } of framesOf(source, source.slices.keys()))
    for (const [at, frame] of frames.entries()) {
      const { segment } = frame;
      if (at === 0 || frames[at - 1]?.segment !== segment) values.fill(0);
      const pixels = await pixelsOf(frame);
      for (let pixel = 0; pixel < values.length; pixel += 1)
        if ((pixels[pixel] ?? 0) >= source.min) values[pixel] = segment ?? 0;
      if (frames[at + 1]?.segment !== segment) yield { k, values };
    }
}

/** The lowest pixel value that belongs to a segment. In a FRACTIONAL segmentation, it must exceed half the maximum. */
function minValue(type: string, set: DataSet): number {
  if (type !== 'FRACTIONAL') return 1;
  return Math.floor((set.uint16('x0062000e') ?? 255) / 2) + 1;
}

/** The segment number of a frame. */
function segmentOf(set: DataSet, index: number, name: string): number {
  const group = groupOf(set, index, 'x0062000a');
  const number = group.uint16('x0062000b') ?? (set.elements.x00620002?.items?.length === 1 ? 1 : undefined);
  if (number !== undefined) return number;
  throw new VolumeError(
    `Frame ${index + 1} of ${name} does not say which segment it is of: convert it to NIfTI.`,
  );
}

function labelsOf(set: DataSet): Label[] {
  const items = set.elements.x00620002?.items ?? [];
  return items.flatMap(({ dataSet }, index) => {
    if (!dataSet) return [];
    const value = dataSet.uint16('x00620004') ?? index + 1;
    return [
      { value, name: textOf(dataSet, 'x00620005', set) || `segment ${value}`, colour: colourOf(dataSet) },
    ];
  });
}

/** RecommendedDisplayCIELabValue as #rrggbb. */
function colourOf(set: DataSet): string | null {
  if ((set.elements.x0062000d?.length ?? 0) < 6) return null;
  const [l = 0, a = 0, b = 0] = [0, 1, 2].map((index) => set.uint16('x0062000d', index));
  return hexOfCieLab([l, a, b]);
}

/**
 * The distance between slices: the one in the file if all frames fit it; otherwise the smallest distance between two frames, or a
 * fraction of it, because empty slices may be missing.
 * @param depths ascending
 * @param rounding of the positions, in mm
 */
function stepOf(
  set: DataSet,
  name: string,
  depths: readonly number[],
  first: Place,
  rounding: number,
): number {
  const given = Math.abs(readNumber(groupOf(set, 0, 'x00289110'), 'x00180088', name) ?? 0);
  const [start = 0] = depths;
  const gaps = depths
    .slice(1)
    .map((depth, index) => depth - (depths[index] ?? 0))
    .filter((gap) => gap > 0.01);
  const smallest = gaps.reduce((all, gap) => Math.min(all, gap), Number.POSITIVE_INFINITY);
  if (gaps.length === 0) {
    const only = given > 0 ? given : first.thickness;
    if (only !== null && only > 0) return only;
    throw new VolumeError(`${name} has a single slice and no thickness: convert it to NIfTI.`);
  }
  const isEven = (step: number) =>
    depths.every((depth) => {
      const at = (depth - start) / step;
      return Math.abs(at - Math.round(at)) < 0.1;
    });
  // Frames that lie closer together prove the given distance wrong.
  const isGiven = given > 0 && given < smallest * 1.1 + rounding && isEven(given);
  const way = (depths.at(-1) ?? 0) - start;
  const levels = [start, ...depths.filter((depth, index) => depth - (depths[index - 1] ?? depth) > 0.01)];
  if (!isGiven && !isEven(smallest) && isEvenRounded(levels, first, rounding)) return way / gaps.length;
  const step = isGiven ? given : [1, 2, 3, 4].map((part) => smallest / part).find(isEven);
  if (step === undefined)
    throw new VolumeError(`The frames of ${name} lie at uneven distances: resample the segmentation.`);
  // The distance between first and last frame is the most accurate, because positions are rounded.
  return way / Math.round(way / step);
}
