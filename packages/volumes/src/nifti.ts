import { stat } from 'node:fs/promises';
import path from 'node:path';
import { voxelNamesOf } from './headers/index.js';
import {
  isAffine,
  type StoredVolume,
  type StoredVoxels,
  storedVolume,
  type ValueType,
} from './stored-voxels.js';
import { type Size, VolumeError } from './volume.js';

/** Lengths of headers, by which NIfTI-1 (and ANALYZE) and NIfTI-2 begin. */
const [first, second] = [348, 540] as const;

/** Data types by their code: of one value, or red, green and blue. */
const types: Readonly<Record<number, { readonly type: ValueType; readonly components: 1 | 3 | 4 }>> = {
  2: { type: 'uint8', components: 1 },
  4: { type: 'int16', components: 1 },
  8: { type: 'int32', components: 1 },
  16: { type: 'float32', components: 1 },
  64: { type: 'float64', components: 1 },
  128: { type: 'uint8', components: 3 },
  256: { type: 'int8', components: 1 },
  512: { type: 'uint16', components: 1 },
  768: { type: 'uint32', components: 1 },
  1024: { type: 'int64', components: 1 },
  1280: { type: 'uint64', components: 1 },
  2304: { type: 'uint8', components: 4 },
};

/** Types that volumes of one real number have no use for. */
const refused: Readonly<Record<number, string>> = {
  1: 'single bits',
  32: 'complex numbers',
  1536: 'numbers of 128 bits',
  1792: 'complex numbers',
  2048: 'complex numbers',
};

/** Offsets in headers of NIfTI-1 and NIfTI-2. */
const offsets = {
  qformCode: [252, 344],
  sformCode: [254, 348],
  /** b, c, d, then the place of voxel (0, 0, 0). */
  quaternion: [256, 352],
  /** Three rows of four. */
  sform: [280, 400],
} as const;

/** Millimetres in a unit of length: metres, millimetres, micrometres. */
const unitOf = (code: number): number => (code === 1 ? 1000 : code === 3 ? 0.001 : 1);

/** The affine of a quaternion, by the standard's method 2. */
function quaternionAffine(at: (index: number) => number, pixelSizes: readonly number[]): number[][] {
  const squares = at(0) ** 2 + at(1) ** 2 + at(2) ** 2;
  // Of a turn by 180 degrees, the first part is 0, but for what the others lost when they were rounded.
  const isHalfTurn = 1 - squares < 1e-7;
  const [b = 0, c = 0, d = 0] = [0, 1, 2].map((index) => at(index) / (isHalfTurn ? Math.sqrt(squares) : 1));
  const a = isHalfTurn ? 0 : Math.sqrt(1 - squares);
  const [, x = 1, y = 1, z = 1] = pixelSizes;
  // The third axis may be mirrored.
  const towards = (pixelSizes[0] ?? 1) < 0 ? -z : z;
  return [
    [(a * a + b * b - c * c - d * d) * x, 2 * (b * c - a * d) * y, 2 * (b * d + a * c) * towards, at(3)],
    [2 * (b * c + a * d) * x, (a * a + c * c - b * b - d * d) * y, 2 * (c * d - a * b) * towards, at(4)],
    [2 * (b * d - a * c) * x, 2 * (c * d + a * b) * y, (a * a + d * d - b * b - c * c) * towards, at(5)],
  ];
}

/** The affine of a volume that says nothing of where it lies: its first axis runs to the left, as ANALYZE has it. */
export function centredAffine(size: Size, pixelSizes: readonly number[]): number[][] {
  const steps = [1, 2, 3].map((axis) => Math.abs(pixelSizes[axis] ?? 1) || 1);
  steps[0] = -(steps[0] ?? 1);
  return steps.map((step, axis) => [
    ...steps.map((_, column) => (column === axis ? step : 0)),
    (-step * ((size[axis] ?? 1) - 1)) / 2,
  ]);
}

/**
 * Reads a header of NIfTI-1, NIfTI-2 or ANALYZE (https://nifti.nimh.nih.gov).
 * @param start the first 1,024 bytes, unpacked
 * @param isPacked whether the file is packed with gzip
 * @throws VolumeError
 */
export async function openNifti(file: string, start: Buffer, isPacked: boolean): Promise<StoredVolume> {
  const name = path.basename(file);
  const isBigEndian = ![first, second].includes(start.readInt32LE(0) as typeof first);
  const short = (at: number) => (isBigEndian ? start.readInt16BE(at) : start.readInt16LE(at));
  const int = (at: number) => (isBigEndian ? start.readInt32BE(at) : start.readInt32LE(at));
  const long = (at: number) => Number(isBigEndian ? start.readBigInt64BE(at) : start.readBigInt64LE(at));
  const float = (at: number) => (isBigEndian ? start.readFloatBE(at) : start.readFloatLE(at));
  const double = (at: number) => (isBigEndian ? start.readDoubleBE(at) : start.readDoubleLE(at));
  const isSecond = int(0) === second;
  if (isSecond && start.length < second) throw new VolumeError(`${name} is cut short in its header.`);
  const magic = start.toString('latin1', isSecond ? 4 : 344, isSecond ? 7 : 347);
  const isNifti = /^n[+i][12]$/.test(magic);
  // ANALYZE is as NIfTI-1 in its sizes and types, and says nothing of directions.
  const real = (at: number) => (isSecond ? double(at) : float(at));
  const dimensions = Array.from({ length: 8 }, (_, axis) =>
    isSecond ? long(16 + 8 * axis) : short(40 + 2 * axis),
  );
  const pixelSizes = Array.from({ length: 8 }, (_, axis) =>
    isSecond ? double(104 + 8 * axis) : float(76 + 4 * axis),
  );
  const code = short(isSecond ? 12 : 70);
  const known = types[code];
  if (!known)
    throw new VolumeError(
      `${name} holds ${refused[code] ?? `values of an unknown type (${code})`}: convert it to float32 or int16.`,
    );
  const count = (dimensions[0] ?? 0) >= 1 && (dimensions[0] ?? 0) <= 7 ? (dimensions[0] ?? 0) : 0;
  if (count === 0)
    throw new VolumeError(
      `${name} is damaged: its header says ${dimensions[0]} dimensions. Copy it again from the original.`,
    );
  const isNegative = dimensions.slice(1, count + 1).some((each) => each < 0);
  if (isNegative || dimensions.slice(1, Math.min(count, 3) + 1).includes(0))
    throw new VolumeError(
      `${name} is damaged: its header says ${dimensions.slice(1, count + 1).join(' x ')} voxels. Copy it again from the original.`,
    );
  // Some programs leave later axes at 0.
  const along = (axis: number) => (axis <= count ? Math.max(1, dimensions[axis] ?? 1) : 1);
  const size: Size = [along(1), along(2), along(3)];
  const frames = [4, 5, 6, 7].reduce((product, axis) => product * along(axis), 1);
  const isPair = isNifti ? magic[1] === 'i' : true;
  const offset = isSecond ? long(168) : float(108);
  const slope = isNifti ? real(isSecond ? 176 : 112) : 1;
  const intercept = isNifti ? real(isSecond ? 184 : 116) : 0;
  // A slope of 0 means that values are not scaled; so does one that is no number.
  const isScaled = Number.isFinite(slope) && slope !== 0 && Number.isFinite(intercept);
  const dataFile = isPair ? await imageOf(file) : file;
  const stored: StoredVoxels = {
    path: file,
    dataFiles: [dataFile],
    isPacked: isPair ? /\.gz$/i.test(dataFile) : isPacked,
    packedFrom: 0,
    start: Math.max(isPair ? 0 : isSecond ? 544 : 352, Number.isFinite(offset) ? Math.trunc(offset) : 0),
    ...known,
    isBigEndian,
    size,
    frames,
    isInterleaved: false,
    slope: isScaled && known.components === 1 ? slope : 1,
    intercept: isScaled && known.components === 1 ? intercept : 0,
  };
  const codeAt = (at: readonly [number, number]) => (isSecond ? int(at[1]) : short(at[0]));
  const millimetres = unitOf((isSecond ? int(500) : start.readUInt8(123)) & 7);
  const at = (offset: readonly [number, number], index = 0) =>
    real(isSecond ? offset[1] + 8 * index : offset[0] + 4 * index);
  const given: number[][][] = [];
  if (isNifti && codeAt(offsets.sformCode) > 0)
    given.push([0, 4, 8].map((row) => [0, 1, 2, 3].map((column) => at(offsets.sform, row + column))));
  if (isNifti && codeAt(offsets.qformCode) > 0)
    given.push(quaternionAffine((index) => at(offsets.quaternion, index), pixelSizes));
  // Some programs set a code and write zeros.
  const placed = given.find(isAffine);
  if (given.length > 0 && !placed)
    throw new VolumeError(
      `${name} is damaged: its axes have no direction or no length. Copy it again from the original.`,
    );
  const affine = placed ?? centredAffine(size, pixelSizes);
  return storedVolume(
    stored,
    affine.map((row) => row.map((value) => value * millimetres)),
    { format: isNifti ? 'NIfTI' : 'ANALYZE', hasOrientation: placed !== undefined },
  );
}

/** The file with the voxels of a header in a file of its own. */
async function imageOf(header: string): Promise<string> {
  const names = [...voxelNamesOf(header), `${header}.img`];
  for (const name of names) if ((await stat(name).catch(() => null))?.isFile()) return name;
  return names[0] as string;
}
