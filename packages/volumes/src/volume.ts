/** Voxels along i, j and k, the axes of the array; i varies fastest. */
export type Size = readonly [number, number, number];

/** One row of an affine: what i, j and k each add, and what voxel (0, 0, 0) has. */
export type AffineRow = readonly [i: number, j: number, k: number, offset: number];

/**
 * Where voxels lie: from the indices of a voxel to the millimetres of its centre, to the right, to the front and upwards
 * (RAS+, as in NIfTI; DICOM, MetaImage and ITK count to the left and to the back).
 */
export type Affine = readonly [right: AffineRow, front: AffineRow, up: AffineRow];

/** A grid of voxels in space. */
export interface Geometry {
  readonly size: Size;
  readonly affine: Affine;
}

/** Voxel values. Integers of 64 bits are read as numbers. */
export type Voxels =
  | Uint8Array
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | Float32Array
  | Float64Array;

/** Types of stored values: their bytes, and what holds them in memory. */
export const valueTypes = {
  uint8: { bytes: 1, array: Uint8Array },
  int8: { bytes: 1, array: Int8Array },
  uint16: { bytes: 2, array: Uint16Array },
  int16: { bytes: 2, array: Int16Array },
  uint32: { bytes: 4, array: Uint32Array },
  int32: { bytes: 4, array: Int32Array },
  uint64: { bytes: 8, array: BigUint64Array },
  int64: { bytes: 8, array: BigInt64Array },
  float32: { bytes: 4, array: Float32Array },
  float64: { bytes: 8, array: Float64Array },
} as const;

export type ValueType = keyof typeof valueTypes;

/** An array of the same type. @throws RangeError for more than memory can hold */
export const arrayLike = (values: Voxels, length: number): Voxels =>
  new (values.constructor as new (length: number) => Voxels)(length);

/** A label of a segmentation that says itself what its labels are. */
export interface Label {
  readonly value: number;
  readonly name: string;
  /** `#rrggbb`; null if the file gives none. */
  readonly colour: string | null;
}

/** What the header of a volume says. */
export interface VolumeHeader extends Geometry {
  /** `NIfTI`, `NRRD`, `MetaImage`, `FreeSurfer`, `DICOM`, `DICOM SEG`. */
  readonly format: string;
  /** Values of one voxel of a slice: 1, or 3 and 4 for RGB and RGBA. */
  readonly components: 1 | 3 | 4;
  /** Volumes in the file: time points, or the components of vectors. 1 for nearly all. */
  readonly frames: number;
  /** Whether the file says which way its axes run. If not, left and right may be swapped. */
  readonly hasOrientation: boolean;
  /** Whether the sform and the qform of a NIfTI file contradict each other in left and right. Programs then mirror it or not. */
  readonly hasContradictorySides?: boolean;
  /** Modality by DICOM, `CT` or `MR`; null where the format has none. */
  readonly modality: string | null;
  /** What the values are, where the file says it: Hounsfield units. */
  readonly unit?: 'HU' | null;
  /** Whether the lowest value is meant to be white (MONOCHROME1 of DICOM). */
  readonly isInverted?: boolean;
  /** What the file itself says of its labels; null for everything but DICOM SEG and the segmentations of 3D Slicer. */
  readonly labels: readonly Label[] | null;
}

/** A slice of a volume: all voxels of one k, i fastest, then j. */
export interface Slice {
  readonly k: number;
  /** size[0] x size[1] x components values, scaled as the header says. Valid until the next slice is asked for. */
  readonly values: Voxels;
}

/** Which slices are read. */
export interface SliceChoice {
  /** Indices k, ascending; all of them if they are not given. */
  readonly only?: readonly number[];
  /** Which of the `frames`; the first one if it is not given. */
  readonly frame?: number;
}

/** A volume on disk whose header has been read. Nothing stays open. */
export interface VolumeFile extends VolumeHeader {
  /** The file, or the directory of a DICOM series. */
  readonly path: string;
  /** The files that its header names for the voxels, if they are not in the file itself. */
  readonly dataFiles?: readonly string[];
  /**
   * Reads slices, in ascending order. Needs the memory of a few slices where the format allows it; of packed files, all
   * that lies before the last slice is unpacked and dropped.
   * @throws VolumeError for a file that is truncated or damaged
   */
  slices(choice?: SliceChoice): AsyncGenerator<Slice, void, undefined>;
  /**
   * Of a segmentation whose labels may overlap: its slices label by label, or layer by layer, each with all voxels of its
   * labels, as often as there are layers and in any order. `slices` has one value for each voxel, that of the last one.
   */
  layers?(): AsyncGenerator<Slice, void, undefined>;
}

/** A volume in memory. */
export interface Volume extends VolumeHeader {
  /** The voxels of all frames, one frame after another; in each i is fastest (after the components), then j, then k. */
  readonly data: Voxels;
}

/** A file that cannot be read as a volume. The message names the file and says what to do. */
export class VolumeError extends Error {
  override readonly name = 'VolumeError';
}

/** The error of a file that is damaged or cut short, after a sentence that says what is wrong. */
export const damaged = (what: string): VolumeError =>
  new VolumeError(`${what} Copy it again from the original.`);

/** How far apart two affines may place a voxel of the same index, as a part of a voxel: formats round differently. */
const placeTolerance = 0.05;

/** Length of the step along each axis, in mm. */
export const spacingOf = ({ affine }: Pick<Geometry, 'affine'>): [number, number, number] =>
  [0, 1, 2].map((axis) => Math.hypot(...affine.map((row) => row[axis] ?? 0))) as [number, number, number];

/** Where the centre of a voxel lies, in mm (RAS+). The indices may be fractions. */
export const placeOf = (
  { affine }: Pick<Geometry, 'affine'>,
  i: number,
  j: number,
  k: number,
): [number, number, number] =>
  affine.map(([x, y, z, offset]) => x * i + y * j + z * k + offset) as [number, number, number];

/**
 * Whether the voxels of two volumes lie at the same places.
 * @param tolerance how far apart they may be, in smallest sides of a voxel
 */
export function isSameGeometry(one: Geometry, other: Geometry, tolerance = placeTolerance): boolean {
  if (one.size.some((count, axis) => count !== other.size[axis])) return false;
  const least = Math.min(...spacingOf(one));
  const [i, j, k] = one.size;
  // An affine is known by where it places four corners.
  const corners: readonly Size[] = [
    [0, 0, 0],
    [i, 0, 0],
    [0, j, 0],
    [0, 0, k],
  ];
  return corners.every((corner) => {
    const [a, b] = [placeOf(one, ...corner), placeOf(other, ...corner)];
    return Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]) <= least * tolerance;
  });
}

/** Millilitres of one voxel, also where its axes are not perpendicular. */
export function voxelVolumeOf({ affine: [x, y, z] }: Pick<Geometry, 'affine'>): number {
  const determinant =
    x[0] * (y[1] * z[2] - y[2] * z[1]) -
    x[1] * (y[0] * z[2] - y[2] * z[0]) +
    x[2] * (y[0] * z[1] - y[1] * z[0]);
  return Math.abs(determinant) / 1000;
}

/** From millimetres (RAS+) to indices of voxels: the inverse of an affine. Null if it has none. */
export function inverseOf([[a, b, c, p], [d, e, f, q], [g, h, i, r]]: Affine): Affine | null {
  const cofactors = [
    [e * i - f * h, c * h - b * i, b * f - c * e],
    [f * g - d * i, a * i - c * g, c * d - a * f],
    [d * h - e * g, b * g - a * h, a * e - b * d],
  ] as const;
  const determinant = a * cofactors[0][0] + b * cofactors[1][0] + c * cofactors[2][0];
  if (!(Math.abs(determinant) > 0)) return null;
  return cofactors.map(([x, y, z]) => {
    const row = [x / determinant, y / determinant, z / determinant] as const;
    return [...row, -(row[0] * p + row[1] * q + row[2] * r)] as const;
  }) as unknown as Affine;
}

/**
 * By how many degrees the axes of a volume are from being perpendicular: of a series, those by which its gantry was tilted. Those of
 * straight series have little of it, from places that are rounded.
 */
export function shearOf({ affine }: Pick<Geometry, 'affine'>): number {
  const spacing = spacingOf({ affine });
  const cosine = (one: number, other: number) =>
    affine.reduce((sum, row) => sum + (row[one] ?? 0) * (row[other] ?? 0), 0) /
    ((spacing[one] ?? 1) * (spacing[other] ?? 1));
  const cosines = [cosine(0, 1), cosine(0, 2), cosine(1, 2)].map(Math.abs);
  return (Math.asin(Math.min(1, Math.max(...cosines))) * 180) / Math.PI;
}
