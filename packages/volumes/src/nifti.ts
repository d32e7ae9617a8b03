import path from 'node:path';
import { firstFile, voxelNamesOf } from './headers/data-files.js';
import { disagreeOnSides, formsOf } from './headers/nifti-forms.js';
import { extensionBytes, parseNiftiHeader } from './headers/nifti-layout.js';
import { type StoredVolume, storedVolume, type VoxelsOfHeader } from './stored-voxels.js';
import {
  type Affine,
  damaged,
  isSameGeometry,
  type Size,
  TruncatedVolume,
  type ValueType,
  VolumeError,
} from './volume.js';

/** Data types by their code. */
export const niftiTypes: Readonly<
  Record<number, { readonly type: ValueType; readonly components: 1 | 3 | 4 }>
> = {
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

/** Unsupported data types. */
const refused: Readonly<Record<number, string>> = {
  1: 'single bits',
  32: 'complex numbers',
  1536: 'numbers of 128 bits',
  1792: 'complex numbers',
  2048: 'complex numbers',
};

/** Millimetres in a unit of length (xyzt_units). */
const unitOf = (code: number): number => (code === 1 ? 1000 : code === 3 ? 0.001 : 1);

/** Seconds in a unit of time (xyzt_units): s, ms and μs. */
const secondsOf: Readonly<Record<number, number>> = { 8: 1, 16: 1e-3, 24: 1e-6 };

/** The affine of a volume without a position: centred, with the first axis pointing left, as in ANALYZE. */
export function centredAffine(size: Size, pixelSizes: readonly number[]): number[][] {
  const steps = [1, 2, 3].map((axis) => Math.abs(pixelSizes[axis] ?? 1) || 1);
  steps[0] = -(steps[0] ?? 1);
  return steps.map((step, axis) => [
    ...steps.map((_, column) => (column === axis ? step : 0)),
    (-step * ((size[axis] ?? 1) - 1)) / 2,
  ]);
}

/**
 * Opens a volume of NIfTI-1, NIfTI-2 or ANALYZE. The sform is used if given, otherwise the qform.
 * @param start the first 1,024 bytes, unpacked
 * @param isPacked whether the file is packed with gzip
 * @throws VolumeError
 */
export async function openNifti(file: string, start: Buffer, isPacked: boolean): Promise<StoredVolume> {
  const name = path.basename(file);
  const header = parseNiftiHeader(start);
  if (!header) throw new TruncatedVolume(`${name} is cut short in its header.`);
  const { isNifti, isPair, isBigEndian, datatype, pixdim, voxOffset, slope, intercept } = header;
  const known = niftiTypes[datatype];
  if (!known)
    throw new VolumeError(
      `${name} holds ${refused[datatype] ?? `values of an unknown type (${datatype})`}: convert it to float32 or int16.`,
    );
  const [count = 0, ...dimensions] = header.dim;
  if (!(count >= 1 && count <= 7)) throw damaged(`${name} is damaged: its header says ${count} dimensions.`);
  const given = dimensions.slice(0, count);
  if (given.some((each) => each < 0) || given.slice(0, 3).includes(0))
    throw damaged(`${name} is damaged: its header says ${given.join(' x ')} voxels.`);
  // Some programs set the sizes of unused axes to 0.
  const [ni = 1, nj = 1, nk = 1, ...others] = given.map((each) => Math.max(1, each));
  const size: Size = [ni, nj, nk];
  // A slope of 0 or NaN means that values are not scaled.
  const isScaled = known.components === 1 && Number.isFinite(slope) && slope !== 0;
  if (isScaled && slope !== 1 && !(isNifti && Number.isFinite(intercept)))
    throw new VolumeError(
      `${name} scales its values by ${slope} in a way that programs read differently (${isNifti ? 'its intercept is no number' : 'the scale of SPM in ANALYZE'}): write it again as NIfTI.`,
    );
  const dataFile = isPair ? await imageOf(file) : file;
  const stored: VoxelsOfHeader = {
    path: file,
    dataFiles: [dataFile],
    isPacked: isPair ? /\.gz$/i.test(dataFile) : isPacked,
    start: Math.max(
      isPair ? 0 : header.bytes + extensionBytes,
      Number.isFinite(voxOffset) ? Math.trunc(voxOffset) : 0,
    ),
    ...known,
    isBigEndian,
    size,
    frames: others.reduce((product, each) => product * each, 1),
    slope: isScaled ? slope : 1,
    intercept: isScaled && Number.isFinite(intercept) ? intercept : 0,
  };
  const { placed, other } = formsOf(header);
  if ((header.sformCode > 0 || header.qformCode > 0) && !placed)
    throw damaged(`${name} is damaged: its axes have no direction or no length.`);
  const millimetres = unitOf(header.units & 7);
  const scaled = (rows: readonly (readonly number[])[]) =>
    rows.map((row) => row.map((value) => value * millimetres)) as unknown as Affine;
  const affine = scaled(placed ?? centredAffine(size, pixdim));
  const { qformCode, sformCode } = header;
  const qform = other && { affine: scaled(other), qformCode, sformCode };
  const [volumes = 1, components = 1] = others;
  const step = (pixdim[4] ?? 0) * (secondsOf[header.units & 0x38] ?? 0);
  return storedVolume(stored, affine, {
    format: isNifti ? 'NIfTI' : 'ANALYZE',
    hasOrientation: placed !== undefined,
    ...(placed && other && disagreeOnSides(placed, other) && { hasContradictorySides: true }),
    ...(qform && !isSameGeometry({ size, affine }, { size, affine: qform.affine }) && { qform }),
    ...(components > 1 && { hasVectors: true }),
    ...(volumes > 1 && step > 0 && Number.isFinite(step) && { secondsPerFrame: step }),
  });
}

/** The voxel file of a header. */
async function imageOf(header: string): Promise<string> {
  const names = [...voxelNamesOf(header), `${header}.img`];
  return (await firstFile(names)) ?? (names[0] as string);
}
