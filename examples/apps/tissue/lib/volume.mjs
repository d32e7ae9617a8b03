import { mkdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { readImageNode, writeImageNode } from '@itk-wasm/image-io';
import { isDicom, readSeries } from './dicom.mjs';
import { AppError, ServiceError } from './errors.mjs';
import { readLayout, requireWhole } from './layout.mjs';
import { quietly } from './quietly.mjs';

/**
 * A volume is itk-wasm's image object: `size`, `spacing`, `origin`, `direction` and `data`, x fastest.
 * The Node entry points of itk-wasm run in this process and start no worker, so nothing keeps it from ending.
 */

/** Reads a scalar 3-D volume: an image file, or a directory that holds a DICOM series. */
export async function readVolume(file, log) {
  const volume = await readStack(file, log);
  if (volume.imageType.components !== 1) {
    throw new AppError(
      `${nameOf(file)} has ${volume.imageType.components} values per voxel, and a volume with one is needed.`,
    );
  }
  return volume;
}

/** Reads a 3-D volume with any number of values per voxel. */
export async function readStack(file, log) {
  const absolute = path.resolve(file); // ITK's file system inside WebAssembly knows absolute paths only
  const kind = await stat(absolute).catch(() => undefined);
  if (kind === undefined) throw new AppError(`${nameOf(file)} does not exist.`);
  const isSeries = kind.isDirectory() || (await isDicom(absolute));
  const volume = isSeries ? await readSeries(absolute, log) : await readFile(absolute);
  if (volume.size.length !== 3)
    throw new AppError(`${nameOf(file)} has ${volume.size.length} dimensions, and a 3-D volume is needed.`);
  return volume;
}

/** A path as the person knows it: the directories above are those of the job. */
function nameOf(file) {
  return path.basename(path.resolve(file));
}

async function readFile(absolute) {
  const layout = await readLayout(absolute);
  if (layout !== undefined) await requireWhole(absolute, layout);
  try {
    // The library itself refuses an HDF5 file that is cut. Of other formats nobody would know.
    if (layout === undefined && !absolute.toLowerCase().endsWith('.hdf5')) throw new Error('no known format');
    return await quietly(() => readImageNode(absolute));
  } catch {
    throw new AppError(
      `${nameOf(absolute)} cannot be read as an image: give a NIfTI, MetaImage or NRRD file or a directory of DICOM slices.`,
    );
  }
}

/** Writes `data` with the geometry of `like`, as an exact copy: origin, spacing and direction. */
export async function writeVolume(file, like, data, { components = 1, compress = true } = {}) {
  const image = {
    imageType: {
      dimension: 3,
      componentType: COMPONENT_TYPES.get(data.constructor),
      pixelType: components === 1 ? 'Scalar' : 'VariableLengthVector',
      components,
    },
    name: 'image',
    origin: Array.from(like.origin),
    spacing: Array.from(like.spacing),
    direction: Float64Array.from(like.direction),
    size: Array.from(like.size),
    metadata: new Map(),
    data,
  };
  const absolute = path.resolve(file);
  await mkdir(path.dirname(absolute), { recursive: true });
  try {
    await quietly(() => writeImageNode(image, absolute, { useCompression: compress }));
  } catch (error) {
    throw new ServiceError(
      `${nameOf(file)} cannot be written (${error.message ?? 'the image library failed'}): is the disk full?`,
    );
  }
}

const COMPONENT_TYPES = new Map([
  [Uint8Array, 'uint8'],
  [Int16Array, 'int16'],
  [Float32Array, 'float32'],
]);

/** Refuses two volumes whose voxels do not lie at the same places. */
export function requireSameGeometry(one, oneName, other, otherName) {
  for (const [field, tolerance] of [
    ['size', 0],
    ['spacing', 1e-3],
    ['origin', 1e-2],
    ['direction', 1e-3],
  ]) {
    const a = Array.from(one[field]);
    const b = Array.from(other[field]);
    if (a.some((value, i) => Math.abs(value - b[i]) > tolerance)) {
      const show = (values) => values.map((value) => Number(value.toFixed(4))).join(' ');
      throw new AppError(
        `${oneName} and ${otherName} differ in ${field} (${show(a)} against ${show(b)}): resample one onto the other.`,
      );
    }
  }
}

export function voxelCount(volume) {
  return volume.size[0] * volume.size[1] * volume.size[2];
}
