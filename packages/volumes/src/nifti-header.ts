import { cross, dot } from './headers/dicom-stack.js';
import { extensionBytes, type NiftiField, placeOfField } from './headers/nifti-layout.js';
import { centredAffine, niftiTypes } from './nifti.js';
import {
  type Geometry,
  isSameGeometry,
  spacingOf,
  type Volume,
  VolumeError,
  type Voxels,
  valueTypes,
} from './volume.js';

/** A volume to write, either read from a file or made by an app. */
export interface WritableVolume
  extends Geometry,
    Partial<Pick<Volume, 'components' | 'frames' | 'hasOrientation' | 'qform' | 'secondsPerFrame'>> {
  /** Whether several frames follow each other, as in a time series. By default they are the components of vectors, as in ITK. */
  readonly isTimeSeries?: boolean;
  /** As in `Volume`: one frame after another, i fastest. */
  readonly data: Voxels;
}

/** Maximum number of voxels along an axis in NIfTI-1. */
const maxSize = 32_767;

/**
 * The NIfTI-1 header of a volume; the voxels follow it.
 * @throws VolumeError for a volume that NIfTI-1 cannot hold
 */
export function niftiHeader(name: string, volume: WritableVolume): Buffer {
  const { size, affine, data, components = 1, frames = 1, qform, isTimeSeries = false } = volume;
  if ([...size, frames].some((each) => each > maxSize))
    throw new VolumeError(
      `${name} cannot be written: NIfTI-1 holds at most ${maxSize} voxels along an axis.`,
    );
  const code = Object.entries(niftiTypes).find(
    ([, each]) => data instanceof valueTypes[each.type].array && each.components === components,
  )?.[0];
  if (code === undefined) throw new VolumeError(`${name} cannot be written: colours need values of 8 bits.`);
  const bytes = 348;
  const header = Buffer.alloc(bytes + extensionBytes);
  const at = (field: NiftiField) => placeOfField(field, 1).offset;
  const writeShorts = (field: NiftiField, ...values: readonly number[]) => {
    for (const [index, each] of values.entries()) header.writeInt16LE(each, at(field) + 2 * index);
  };
  const writeFloats = (field: NiftiField, ...values: readonly number[]) => {
    for (const [index, each] of values.entries()) header.writeFloatLE(each, at(field) + 4 * index);
  };
  header.writeInt32LE(bytes, at('sizeof_hdr'));
  if (frames === 1) writeShorts('dim', 3, ...size, 1, 1, 1, 1);
  else if (isTimeSeries) writeShorts('dim', 4, ...size, frames, 1, 1, 1);
  else {
    writeShorts('dim', 5, ...size, 1, frames, 1, 1);
    // NIFTI_INTENT_VECTOR
    writeShorts('intent_code', 1007);
  }
  writeShorts('datatype', Number(code));
  writeShorts('bitpix', data.BYTES_PER_ELEMENT * 8 * components);
  const { offset, quaternion, isMirrored } = quaternionOf(qform?.affine ?? affine);
  const steps = spacingOf({ affine: qform?.affine ?? affine });
  writeFloats('pixdim', isMirrored ? -1 : 1, ...steps, isTimeSeries ? (volume.secondsPerFrame ?? 0) : 0);
  writeFloats('vox_offset', header.length);
  writeFloats('scl_slope, scl_inter', 1);
  // Millimetres and seconds.
  header.writeUInt8(2 | 8, at('xyzt_units'));
  // Both forms are written, because readers differ in which one they prefer. A quaternion cannot describe sheared axes, but ITK
  // prefers it if axes are not quite perpendicular. A volume read without an orientation is written without one, so that every
  // program places it like the original.
  const isPlaced = volume.hasOrientation !== false || !isCentred(volume);
  if (qform) writeShorts('qform_code, sform_code', qform.qformCode, qform.sformCode);
  else writeShorts('qform_code, sform_code', isPlaced && isRotation(volume) ? 1 : 0, isPlaced ? 1 : 0);
  writeFloats('quaternion and offset', ...quaternion, ...offset);
  writeFloats('srow_x, srow_y, srow_z', ...affine.flat());
  header.write('n+1\0', at('magic'), 'latin1');
  return header;
}

/** Whether a volume lies where NIfTI readers place a volume without an orientation. */
function isCentred({ size, affine }: Geometry): boolean {
  const centred = centredAffine(size, [1, ...spacingOf({ affine })]);
  return affine.every((row, at) =>
    row.every((value, column) => Math.abs(value - (centred[at]?.[column] ?? 0)) < 1e-3),
  );
}

/** The unit vectors along the axes of an affine. */
export function directionsOf(affine: Geometry['affine']): number[][] {
  const spacing = spacingOf({ affine });
  return [0, 1, 2].map((axis) => affine.map((row) => (row[axis] ?? 0) / (spacing[axis] || 1)));
}

/** The rotation nearest to the directions of an affine. Rounded positions of DICOM make axes slightly oblique to each other. */
function rotationOf(affine: Geometry['affine']): Columns {
  let columns = directionsOf(affine) as unknown as Columns;
  // Polar decomposition: the mean of a matrix and its transposed inverse converges to the rotation.
  for (let round = 0; round < 10; round += 1) {
    const [x, y, z] = columns;
    const other = [cross(y, z), cross(z, x), cross(x, y)];
    const determinant = dot(x, other[0] ?? []);
    columns = columns.map((column, axis) =>
      column.map((each, row) => (each + (other[axis]?.[row] ?? 0) / determinant) / 2),
    ) as unknown as Columns;
  }
  return columns;
}

/** Whether the closest rotation places each voxel within half a voxel of its place by the affine. */
function isRotation({ size, affine }: Geometry): boolean {
  const columns = rotationOf(affine);
  const spacing = spacingOf({ affine });
  const rotated = affine.map((row, at) => [
    ...spacing.map((step, axis) => (columns[axis]?.[at] ?? 0) * step),
    row[3],
  ]);
  return isSameGeometry({ size, affine }, { size, affine: rotated as unknown as Geometry['affine'] }, 0.5);
}

/** The directions of an affine as a quaternion (b, c, d), and whether the third axis is mirrored. */
function quaternionOf(affine: Geometry['affine']) {
  const [x, y, z] = rotationOf(affine);
  const isMirrored = dot(cross(x, y), z) < 0;
  const [zx, zy, zz] = z.map((each) => (isMirrored ? -each : each)) as Vector;
  const [[xx, xy, xz], [yx, yy, yz]] = [x, y];
  // Four times the pairwise products of the components a, b, c and d.
  const products = [
    [1 + xx + yy + zz, yz - zy, zx - xz, xy - yx],
    [yz - zy, 1 + xx - yy - zz, xy + yx, zx + xz],
    [zx - xz, xy + yx, 1 - xx + yy - zz, yz + zy],
    [xy - yx, zx + xz, yz + zy, 1 - xx - yy + zz],
  ];
  const squares = products.map((row, at) => row[at] ?? 0);
  // The row of the largest component is least affected by rounding.
  const largest = squares.indexOf(Math.max(...squares));
  const scale = 2 * Math.sqrt(squares[largest] ?? 1);
  const [a = 0, ...others] = (products[largest] ?? []).map((each) => each / scale);
  // A header does not store a, which is taken as positive.
  const quaternion = others.map((each) => (a < 0 ? -each : each));
  return { quaternion, offset: affine.map((row) => row[3]), isMirrored };
}

type Vector = [number, number, number];
type Columns = readonly [Vector, Vector, Vector];
