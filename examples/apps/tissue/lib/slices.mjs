import { readElements, readItem, readNumbers, readShort, readText, TAG } from './dicom-elements.mjs';
import { AppError } from './errors.mjs';

/** How far a distance between slices may be from the usual one. Scanners round positions: 1 % is common; a gap is 100 %. */
const TOLERANCE = 0.05;

/**
 * What one DICOM file says of its pixels. `frames` are its slices: one, or those of an enhanced (multi-frame) file, where
 * functional groups (PS3.3, C.7.6.16) say of each frame, or of all, what a file of one slice says directly.
 */
export function describeSlice(bytes, name) {
  const { elements, pixels, ...form } = readElements(bytes, name);
  const [rows, columns, bits] = [TAG.rows, TAG.columns, TAG.bitsAllocated].map((tag) =>
    readShort(elements, tag),
  );
  const [count] = readNumbers(elements, TAG.frames) ?? [1];
  // Each frame has at least a byte.
  if (pixels === undefined || !(rows * columns * bits > 0) || !(count >= 1 && count <= pixels.length))
    throw new AppError(`${name} holds no image or is cut short: take it out, or send it again.`);
  const samples = readShort(elements, TAG.samplesPerPixel) ?? 1;
  const needed = Math.ceil((rows * columns * count * samples * bits) / 8);
  if (!pixels.isPacked && pixels.length < needed)
    throw new AppError(
      `${name} is cut short: its header says ${needed} bytes of pixels, and it has ${pixels.length}. Send it again from the original.`,
    );
  const series = readText(elements, TAG.series);
  const frames = Array.from({ length: count }, (_, index) => ({
    name: count === 1 ? name : `frame ${index + 1} of ${name}`,
    size: [columns, rows],
    ...describeFrame(elements, index),
  }));
  return { name, series, frames, elements, excess: bytes.length - pixels.end, ...form };
}

function describeFrame(elements, index) {
  const groups = [readItem(elements, TAG.perFrameGroups, index), readItem(elements, TAG.sharedGroups)];
  const find = (sequence) => groups.map((group) => readItem(group, sequence)).find(Boolean) ?? elements;
  const [measures, transformation] = [find(TAG.pixelMeasures), find(TAG.valueTransformations)];
  const [thickness] = readNumbers(measures, TAG.sliceThickness) ?? [];
  const [slope] = readNumbers(transformation, TAG.slope) ?? [1];
  const [intercept] = readNumbers(transformation, TAG.intercept) ?? [0];
  return {
    position: readNumbers(find(TAG.planePositions), TAG.position),
    orientation: readNumbers(find(TAG.planeOrientations), TAG.orientation),
    pixelSpacing: readNumbers(measures, TAG.pixelSpacing),
    thickness,
    slope,
    intercept,
  };
}

/** The slices in the order of their places, and where the volume of them lies; refuses slices that are no volume. */
export function arrangeSlices(frames) {
  for (const frame of frames) requirePlace(frame);
  const [first] = frames;
  for (const frame of frames) {
    requireSame(first, frame, 'size', 'rows or columns', 0);
    requireSame(first, frame, 'orientation', 'orientation', 1e-3);
    requireSame(first, frame, 'pixelSpacing', 'pixel spacing', 1e-3);
  }
  const [row, column] = [first.orientation.slice(0, 3), first.orientation.slice(3)];
  const normal = cross(row, column);
  const depth = (frame) => dot(frame.position, normal);
  const ordered = frames.toSorted((a, b) => depth(a) - depth(b));
  const step = requireEvenSteps(ordered, normal);
  const direction = [0, 1, 2].flatMap((axis) => [row[axis], column[axis], normal[axis]]);
  const [height, width] = first.pixelSpacing;
  const origin = ordered[0].position;
  return { ordered, origin, spacing: [width, height, step], direction: Float64Array.from(direction) };
}

/**
 * A guess of where a slice lies, by its number or its file's name, can turn the head upside down, and a guess of the
 * distances changes every volume in millilitres. A radiologist wants no such result: it looks as good as a right one.
 */
function requirePlace({ name, position, orientation, pixelSpacing }) {
  const needed = [
    ['position (Image Position Patient)', position?.length === 3],
    ['orientation (Image Orientation Patient)', orientation?.length === 6],
    ['pixel spacing', pixelSpacing?.length === 2 && Math.min(...pixelSpacing) > 0],
  ];
  const [missing] = needed.find(([, isThere]) => !isThere) ?? [];
  if (missing)
    throw new AppError(
      `${name} has no ${missing}, so that the slices have no certain order and size: export the series again with it, or convert it to NIfTI.`,
    );
}

function requireSame(one, other, field, words, tolerance) {
  if (one[field].every((value, i) => Math.abs(value - other[field][i]) <= tolerance)) return;
  throw new AppError(
    `${one.name} and ${other.name} differ in ${words} (${one[field].join(' ')} against ${other[field].join(' ')}): give each series its own directory, without localizers.`,
  );
}

/** The distance from slice to slice; refuses slices that are missing, there twice, or shifted against each other. */
function requireEvenSteps(ordered, normal) {
  const [first] = ordered;
  const last = ordered.at(-1);
  if (first === last) return requireThickness(first);
  const steps = ordered.slice(1).map((frame, i) => {
    const way = frame.position.map((value, axis) => value - ordered[i].position[axis]);
    const length = dot(way, normal);
    return {
      from: ordered[i],
      to: frame,
      length,
      shift: Math.sqrt(Math.max(0, dot(way, way) - length ** 2)),
    };
  });
  const twice = steps.find(({ length }) => length < 0.01);
  if (twice)
    throw new AppError(
      `${twice.from.name} and ${twice.to.name} lie at the same place: take out the copy, or give each echo or time point its own directory.`,
    );
  const usual = steps.map(({ length }) => length).sort((a, b) => a - b)[Math.floor(steps.length / 2)];
  const uneven = steps.find(({ length }) => Math.abs(length - usual) > TOLERANCE * usual);
  if (uneven)
    throw new AppError(
      `Between ${uneven.from.name} and ${uneven.to.name} are ${uneven.length.toFixed(2)} mm, between other slices ${usual.toFixed(2)} mm: a slice is missing or belongs elsewhere. Send the whole series, of even distances.`,
    );
  const shifted = steps.find(({ length, shift }) => shift > TOLERANCE * length);
  if (shifted)
    throw new AppError(
      `${shifted.to.name} is shifted by ${shifted.shift.toFixed(2)} mm against ${shifted.from.name} (a tilted gantry): resample the series to straight slices.`,
    );
  return Math.hypot(...last.position.map((value, axis) => value - first.position[axis])) / steps.length;
}

function requireThickness({ name, thickness }) {
  if (thickness > 0) return thickness;
  throw new AppError(`${name} is a single slice and has no thickness: give the whole series.`);
}

function dot(a, b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

function cross(a, b) {
  return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
}
