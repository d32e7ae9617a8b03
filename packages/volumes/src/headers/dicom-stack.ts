type Vector = readonly number[];

export const dot = (a: Vector, b: Vector): number =>
  a.reduce((sum, value, axis) => sum + value * (b[axis] ?? 0), 0);

const cross = ([a = 0, b = 0, c = 0]: Vector, [x = 0, y = 0, z = 0]: Vector): number[] => [
  b * z - c * y,
  c * x - a * z,
  a * y - b * x,
];

/** The direction across the plane of images (ImageOrientationPatient). */
export const normalOf = (orientation: Vector): number[] =>
  cross(orientation.slice(0, 3), orientation.slice(3));

/** Millimetres below which two images are of the same place. */
const samePlace = 0.01;

/** Images of one place. */
interface Level<T> {
  /** How far along the normal they lie, in mm. */
  readonly depth: number;
  readonly images: T[];
}

/** Images from the first to the last along the normal, all that are of one place together. */
export function stackOf<T>(images: readonly T[], depthOf: (image: T) => number): Level<T>[] {
  const ordered = images.map((image) => ({ image, depth: depthOf(image) })).sort((a, b) => a.depth - b.depth);
  const levels: Level<T>[] = [];
  for (const { image, depth } of ordered) {
    const last = levels.at(-1);
    if (last && depth - last.depth < samePlace) last.images.push(image);
    else levels.push({ depth, images: [image] });
  }
  return levels;
}

/** The distance from one place to the next that most have, of distances in any order. */
export const usualStep = (steps: readonly number[]): number =>
  steps.toSorted((a, b) => a - b)[Math.floor(steps.length / 2)] ?? 0;
