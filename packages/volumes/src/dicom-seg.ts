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

/** A frame of the file: a segment in one slice, or all labels of a slice. */
interface SegmentFrame extends Place {
  readonly index: number;
  /** Segment number; null in a map of labels. */
  readonly segment: number | null;
}

/**
 * A segmentation as one volume of labels: segment numbers, of which a later one wins where segments overlap. Its slices go
 * from the first to the last that any frame is of; those that no frame is of are empty.
 * @throws VolumeError for frames without a place or with uneven distances, and for what cannot be read
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
  // Where segments overlap, the one of the highest number is kept.
  for (const slice of slices) slice.sort((a, b) => (a.segment ?? 0) - (b.segment ?? 0) || a.index - b.index);
  const isWide =
    type === 'LABELMAP' ? format.bitsAllocated > 8 : frames.some(({ segment }) => (segment ?? 0) > 255);
  const least = leastValue(type, set);
  const source: Source = { file, deflatedFrom, format, slices, isWide, least, target };
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
    // A map of labels has one label for each voxel.
    ...(type !== 'LABELMAP' && { layers: () => readSegments(source) }),
  };
}

/** The way from slice to slice: from the first to the last frame, as that of a series, or along the normal if all are of one slice. */
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

/** More slices than any scan has: a grid with more comes of positions that are none. */
const maxSlices = 65_536;

interface Source {
  readonly file: string;
  readonly deflatedFrom: number | null;
  readonly format: PixelFormat;
  readonly slices: readonly (readonly SegmentFrame[])[];
  readonly isWide: boolean;
  readonly least: number;
  readonly target: string;
}

async function* read(choice: SliceChoice = {}, source: Source): AsyncGenerator<Slice, void, undefined> {
  const { format, slices, isWide, least } = source;
  const { only = slices.keys(), frame: time = 0 } = choice;
  const length = format.rows * format.columns;
  const values = isWide ? new Uint16Array(length) : new Uint8Array(length);
  const bytes = await openBytes(source.file, source.deflatedFrom);
  try {
    for (const k of only) {
      const frames = time === 0 ? slices[k] : undefined;
      if (!frames) throw new RangeError(`There is no slice ${k} of frame ${time} in ${source.target}.`);
      values.fill(0);
      for (const { index, segment } of frames) {
        const pixels = await readPixels(bytes, format, index);
        for (let at = 0; at < length; at += 1) {
          const value = pixels[at] ?? 0;
          if (value >= least) values[at] = segment ?? value;
        }
      }
      yield { k, values };
    }
  } finally {
    await bytes.close();
  }
}

/** Each segment of each slice by itself. */
async function* readSegments(source: Source): AsyncGenerator<Slice, void, undefined> {
  const { format, slices, isWide, least } = source;
  const length = format.rows * format.columns;
  const values = isWide ? new Uint16Array(length) : new Uint8Array(length);
  const bytes = await openBytes(source.file, source.deflatedFrom);
  try {
    // The frames of a slice are ordered by their segments.
    for (const [k, frames] of slices.entries())
      for (const [at, { index, segment }] of frames.entries()) {
        if (at === 0 || frames[at - 1]?.segment !== segment) values.fill(0);
        const pixels = await readPixels(bytes, format, index);
        for (let pixel = 0; pixel < length; pixel += 1)
          if ((pixels[pixel] ?? 0) >= least) values[pixel] = segment ?? 0;
        if (frames[at + 1]?.segment !== segment) yield { k, values };
      }
  } finally {
    await bytes.close();
  }
}

/** The least value that belongs to a segment: of fractions, more than half. */
function leastValue(type: string, set: DataSet): number {
  if (type !== 'FRACTIONAL') return 1;
  return Math.floor((set.uint16('x0062000e') ?? 255) / 2) + 1;
}

/** Which segment a frame is of. */
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
 * The distance between slices: what the file says, if all frames fit in; otherwise the smallest distance between any two,
 * or a part of it, since empty slices may be left out.
 * @param depths ascending
 * @param rounding by how much they may be off, since positions are written with few decimals
 */
function stepOf(
  set: DataSet,
  name: string,
  depths: readonly number[],
  first: Place,
  rounding: number,
): number {
  const said = Math.abs(readNumber(groupOf(set, 0, 'x00289110'), 'x00180088', name) ?? 0);
  const [start = 0] = depths;
  const gaps = depths
    .slice(1)
    .map((depth, index) => depth - (depths[index] ?? 0))
    .filter((gap) => gap > 0.01);
  const smallest = gaps.reduce((least, gap) => Math.min(least, gap), Number.POSITIVE_INFINITY);
  if (gaps.length === 0) {
    const only = said > 0 ? said : first.thickness;
    if (only !== null && only > 0) return only;
    throw new VolumeError(`${name} has a single slice and no thickness: convert it to NIfTI.`);
  }
  const isEven = (step: number) =>
    depths.every((depth) => {
      const at = (depth - start) / step;
      return Math.abs(at - Math.round(at)) < 0.1;
    });
  // Slices that lie closer than what the file says are believed.
  const isSaid = said > 0 && said < smallest * 1.1 + rounding && isEven(said);
  const way = (depths.at(-1) ?? 0) - start;
  const levels = [start, ...depths.filter((depth, index) => depth - (depths[index - 1] ?? depth) > 0.01)];
  if (!isSaid && !isEven(smallest) && isEvenRounded(levels, first, rounding)) return way / gaps.length;
  const step = isSaid ? said : [1, 2, 3, 4].map((part) => smallest / part).find(isEven);
  if (step === undefined)
    throw new VolumeError(`The frames of ${name} lie at uneven distances: resample the segmentation.`);
  // Positions are rounded: the whole way says it best.
  return way / Math.round(way / step);
}
