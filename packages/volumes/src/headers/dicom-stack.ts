type Vector = readonly number[];

export const dot = (a: Vector, b: Vector): number =>
  a.reduce((sum, value, axis) => sum + value * (b[axis] ?? 0), 0);

export const cross = ([a = 0, b = 0, c = 0]: Vector, [x = 0, y = 0, z = 0]: Vector): number[] => [
  b * z - c * y,
  c * x - a * z,
  a * y - b * x,
];

/** The normal of images with this ImageOrientationPatient. */
export const normalOf = (orientation: Vector): number[] =>
  cross(orientation.slice(0, 3), orientation.slice(3));

/** Images that are closer than this, in mm, have the same position. */
const samePlace = 0.01;

/** The images at one position. */
interface Level<T> {
  /** Their distance along the normal, in mm. */
  readonly depth: number;
  readonly images: T[];
}

/** Groups images by position, in order along the normal. */
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

/** The median of distances, in any order. */
export const usualStep = (steps: readonly number[]): number =>
  steps.toSorted((a, b) => a - b)[Math.floor(steps.length / 2)] ?? 0;
