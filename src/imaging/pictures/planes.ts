import { type Geometry, placeOf, spacingOf } from '@remote-app/volumes';
import type { Marks, PlaneName } from './picture.js';

/** How an axis of a picture, or the normal of its plane, maps to an axis of the voxel array. */
export interface Axis {
  /** 0 for i, 1 for j, 2 for k. */
  readonly of: 0 | 1 | 2;
  /** Number of voxels. */
  readonly count: number;
  /** Millimetres between voxels. */
  readonly spacing: number;
  /** Whether the picture runs against the index: its first pixel is the last voxel. */
  readonly isReversed: boolean;
}

/** How a plane is cut out of a volume and shown on screen. */
export interface Plane {
  readonly name: PlaneName;
  readonly marks: Marks;
  /** From the left to the right of the picture. */
  readonly across: Axis;
  /** From the top to the bottom. */
  readonly down: Axis;
  /** The axis along which slices follow each other: upwards, to the front, to the right. */
  readonly through: Axis;
}

/** Axes of space: to the right, to the front, upwards. */
const [toRight, toFront, upwards] = [0, 1, 2] as const;

type Permutation = readonly [0 | 1 | 2, 0 | 1 | 2, 0 | 1 | 2];
const permutations: readonly Permutation[] = [
  [0, 1, 2],
  [0, 2, 1],
  [1, 0, 2],
  [1, 2, 0],
  [2, 0, 1],
  [2, 1, 0],
];

/** Angle in degrees between a spatial axis and a voxel axis above which a volume counts as oblique. */
const oblique = 2;

/** The voxel axes of a volume, by the spatial axes closest to them. */
export interface Orientation {
  readonly planes: readonly [axial: Plane, coronal: Plane, sagittal: Plane];
  /** The largest angle between a spatial axis and its voxel axis, in degrees; null if it is too small to matter. */
  readonly angle: number | null;
}

/**
 * Finds the planes of a volume. The voxel axes are matched with the spatial axes all at once, because matching them one by one
 * could assign two axes of an oblique volume to the same spatial axis. The pictures are radiological: seen from the feet and from
 * the front, with the patient's right on the left.
 */
export function orientationOf(geometry: Geometry): Orientation {
  const spacing = spacingOf(geometry);
  const cosine = (ofSpace: 0 | 1 | 2, of: 0 | 1 | 2): number =>
    (geometry.affine[ofSpace][of] ?? 0) / (spacing[of] || 1);
  const closeness = (order: Permutation) =>
    order.reduce<number>((sum, of, ofSpace) => sum + Math.abs(cosine(ofSpace as 0 | 1 | 2, of)), 0);
  const order = permutations.reduce((best, each) => (closeness(each) > closeness(best) + 1e-9 ? each : best));
  const least = Math.min(...order.map((of, ofSpace) => Math.abs(cosine(ofSpace as 0 | 1 | 2, of))));
  const angle = (Math.acos(Math.min(1, least)) * 180) / Math.PI;
  const axisOf = (ofSpace: 0 | 1 | 2, isAgainst: boolean): Axis => {
    const of = order[ofSpace];
    const isPositive = cosine(ofSpace, of) >= 0;
    return { of, count: geometry.size[of], spacing: spacing[of], isReversed: isPositive === isAgainst };
  };
  const plane = (
    name: PlaneName,
    marks: string,
    [across, down, through]: readonly [0 | 1 | 2, 0 | 1 | 2, 0 | 1 | 2],
  ): Plane => {
    const [left = '', right = '', top = '', bottom = ''] = marks;
    return {
      name,
      marks: { left, right, top, bottom },
      // Pictures run to the patient's left, to the back and downwards.
      across: axisOf(across, true),
      down: axisOf(down, true),
      through: axisOf(through, false),
    };
  };
  return {
    planes: [
      plane('axial', 'RLAP', [toRight, toFront, upwards]),
      plane('coronal', 'RLSI', [toRight, upwards, toFront]),
      plane('sagittal', 'APSI', [toFront, upwards, toRight]),
    ],
    angle: angle > oblique ? angle : null,
  };
}

/** Position of the centre of a slice along the spatial axis through its plane, in mm. */
export function positionOf(geometry: Geometry, plane: Plane, index: number): number {
  const middle = geometry.size.map((count) => (count - 1) / 2) as [number, number, number];
  middle[plane.through.of] = index;
  const place = placeOf(geometry, ...middle);
  return place[{ sagittal: toRight, coronal: toFront, axial: upwards }[plane.name]];
}
