/** Voxels along i, j and k, the axes of the array; i varies fastest. */
export type Size = readonly [number, number, number];

/** One row of an affine: what each step along i, j and k adds, and the value at voxel (0, 0, 0). */
export type AffineRow = readonly [i: number, j: number, k: number, offset: number];

/** Maps the indices of a voxel to its centre in mm, in RAS+ as in NIfTI. DICOM, MetaImage and ITK use LPS+ instead. */
export type Affine = readonly [right: AffineRow, front: AffineRow, up: AffineRow];

/** A grid of voxels in space. */
export interface Geometry {
  readonly size: Size;
  readonly affine: Affine;
}

/** Voxel values. 64-bit integers are read as numbers. */
export type Voxels =
  | Uint8Array
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | Float32Array
  | Float64Array;

/** The types of stored values: bytes of a value, and the array that holds them. */
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

/** Reverses the bytes of each value. */
export function swapBytes(buffer: Buffer, bytes: number): void {
  if (bytes === 2) buffer.swap16();
  else if (bytes === 4) buffer.swap32();
  else if (bytes === 8) buffer.swap64();
}

/** Allocates an array of the same type. @throws RangeError if it does not fit into memory */
export const arrayLike = (values: Voxels, length: number): Voxels =>
  new (values.constructor as new (length: number) => Voxels)(length);

/** A label with the name that its own file gives it. */
export interface Label {
  readonly value: number;
  readonly name: string;
  /** `#rrggbb`; null if the file gives none. */
  readonly colour: string | null;
}

/** The contents of a volume's header. */
export interface VolumeHeader extends Geometry {
  /** `NIfTI`, `NRRD`, `MetaImage`, `FreeSurfer`, `DICOM`, `DICOM SEG`. */
  readonly format: string;
  /** Values of one voxel of a slice: 1, or 3 and 4 for RGB and RGBA. */
  readonly components: 1 | 3 | 4;
  /** Number of volumes in the file: time points, or components of vectors. Nearly always 1. */
  readonly frames: number;
  /** Whether the file gives the directions of its axes. If not, left and right may be swapped. */
  readonly hasOrientation: boolean;
  /** Whether the sform and the qform of a NIfTI file disagree about left and right, so that some programs show it mirrored. */
  readonly hasContradictorySides?: boolean;
  /**
   * The qform of a NIfTI file, if it differs from the sform (`affine`). Some programs place volumes by the qform, so files
   * written for this volume contain both.
   */
  readonly qform?: { readonly affine: Affine; readonly qformCode: number; readonly sformCode: number };
  /** Whether several frames are the components of vectors. Otherwise they follow each other, as in a time series. */
  readonly hasVectors?: boolean;
  /** Seconds between frames of a time series, if a NIfTI file gives them. */
  readonly secondsPerFrame?: number;
  /** DICOM modality, such as `CT` or `MR`; null if the format has none. */
  readonly modality: string | null;
  /** Unit of the values, if the file gives one. */
  readonly unit?: 'HU' | null;
  /** Whether the lowest value is meant to be white (MONOCHROME1 of DICOM). */
  readonly isInverted?: boolean;
  /** The labels that the file names itself; null for everything but DICOM SEG and segmentations of 3D Slicer. */
  readonly labels: readonly Label[] | null;
}

/** A slice of a volume: all voxels with the same k; i varies fastest, then j. */
export interface Slice {
  readonly k: number;
  /** size[0] x size[1] x components values, scaled as the header says. They are overwritten by the next slice. */
  readonly values: Voxels;
}

/** Which slices are read. */
export interface SliceChoice {
  /** Indices k, ascending; all by default. */
  readonly only?: readonly number[];
  /** Index among the `frames`; the first by default. */
  readonly frame?: number;
}

/** A volume on disk whose header has been read. Nothing stays open. */
export interface VolumeFile extends VolumeHeader {
  /** The file, or the directory of a DICOM series. */
  readonly path: string;
  /** The voxel files, if the voxels are not in the file itself. */
  readonly dataFiles?: readonly string[];
  /**
   * Reads slices in ascending order, holding only a few in memory if the format allows it. A packed file is unpacked up to the
   * last slice.
   * @throws VolumeError for a file that is truncated or damaged
   */
  slices(choice?: SliceChoice): AsyncGenerator<Slice, void, undefined>;
  /**
   * Reads a segmentation whose labels may overlap. Yields each slice once for every label or layer, in any order, with all voxels
   * of that label. In `slices`, each voxel only has its last label.
   */
  layers?(): AsyncGenerator<Slice, void, undefined>;
}

/** A volume in memory. */
export interface Volume extends VolumeHeader {
  /** The voxels of all frames, one frame after another; in each, i varies fastest (after the components), then j, then k. */
  readonly data: Voxels;
}

/** A file that cannot be read as a volume. The message names the file and says what to do. */
export class VolumeError extends Error {
  override readonly name = 'VolumeError';
}

/** The error for a file that ends early or cannot be unpacked, so that no program can read it. */
export class TruncatedVolume extends VolumeError {}

/** The error for a damaged or truncated file. The given sentence says what is wrong. */
export const damaged = (what: string): VolumeError =>
  new VolumeError(`${what} Copy it again from the original.`);

export const headerWithoutEnd = (name: string, key = ''): VolumeError =>
  new TruncatedVolume(`${name} is damaged: its header has no end${key}. Copy it again from the original.`);

/**
 * Maximum distance between the places that two affines give the same voxel, as a fraction of a voxel: formats round differently.
 */
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
 * @param tolerance how far apart they may be, as a fraction of the shortest side of a voxel
 */
export function isSameGeometry(one: Geometry, other: Geometry, tolerance = placeTolerance): boolean {
  if (one.size.some((count, axis) => count !== other.size[axis])) return false;
  const shortest = Math.min(...spacingOf(one));
  const [i, j, k] = one.size;
  // Four corners determine an affine.
  const corners: readonly Size[] = [
    [0, 0, 0],
    [i, 0, 0],
    [0, j, 0],
    [0, 0, k],
  ];
  return corners.every((corner) => {
    const [a, b] = [placeOf(one, ...corner), placeOf(other, ...corner)];
    return Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]) <= shortest * tolerance;
  });
}

/** The volume of a voxel in ml, even if the axes are not perpendicular. */
export function voxelVolumeOf({ affine: [x, y, z] }: Pick<Geometry, 'affine'>): number {
  const determinant =
    x[0] * (y[1] * z[2] - y[2] * z[1]) -
    x[1] * (y[0] * z[2] - y[2] * z[0]) +
    x[2] * (y[0] * z[1] - y[1] * z[0]);
  return Math.abs(determinant) / 1000;
}

/** The inverse of an affine, from mm (RAS+) to voxel indices; null if there is none. */
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
 * Deviation of a volume's axes from perpendicular, in degrees: the gantry tilt of a series. Rounded positions give straight
 * series a small tilt as well.
 */
export function shearOf({ affine }: Pick<Geometry, 'affine'>): number {
  const spacing = spacingOf({ affine });
  const cosine = (one: number, other: number) =>
    affine.reduce((sum, row) => sum + (row[one] ?? 0) * (row[other] ?? 0), 0) /
    ((spacing[one] ?? 1) * (spacing[other] ?? 1));
  const cosines = [cosine(0, 1), cosine(0, 2), cosine(1, 2)].map(Math.abs);
  return (Math.asin(Math.min(1, Math.max(...cosines))) * 180) / Math.PI;
}
