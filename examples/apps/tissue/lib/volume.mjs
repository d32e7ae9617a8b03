import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import {
  isSameGeometry,
  openVolume,
  readVolume as read,
  shearOf,
  spacingOf,
  VolumeError,
  writeVolume as write,
} from 'remote-app/volumes';
import { AppError, ServiceError } from './errors.mjs';

/**
 * A volume is what `remote-app/volumes` reads: `size`, `affine`, `frames` and `data`, x fastest, one frame after another;
 * with its `spacing` in millimetres.
 */

/** Reads a 3-D volume with one value per voxel: a file, or a directory that holds a DICOM series. */
export async function readVolume(file, log) {
  const volume = await readStack(file, log, 1);
  if (volume.frames !== 1)
    throw new AppError(
      `${nameOf(file)} has ${volume.frames} values per voxel, and a volume with one is needed.`,
    );
  return volume;
}

/** Reads a 3-D volume with any number of values per voxel; of one with more than `most`, the header alone. */
export async function readStack(file, log, most = Number.POSITIVE_INFINITY) {
  try {
    const opened = await openVolume(path.resolve(file), {
      onLeftOut: (sentence) => log?.line(`  ${sentence}`),
    });
    requirePerpendicular(opened, file);
    const frames = opened.frames * opened.components;
    const volume = frames > most ? opened : await read(opened);
    return { ...volume, frames, data: byFrames(volume), spacing: spacingOf(opened) };
  } catch (error) {
    if (error instanceof VolumeError) throw new AppError(error.message);
    throw error;
  }
}

/** Refuses slices of a tilted gantry: distances and volumes are measured along perpendicular axes. */
function requirePerpendicular(volume, file) {
  const shear = shearOf(volume);
  if (shear > 3)
    throw new AppError(
      `${nameOf(file)} has slices that are tilted by ${shear.toFixed(0)} degrees against each other (a tilted gantry): resample it to straight slices.`,
    );
}

/** The values of a colour image as frames: red, green and blue one after another. */
function byFrames({ data, components, frames }) {
  if (data === undefined || components === 1) return data;
  const count = data.length / components / frames;
  const planes = new data.constructor(data.length);
  for (let at = 0; at < planes.length; at += 1) {
    const frame = Math.floor(at / components / count);
    const voxel = Math.floor(at / components) % count;
    planes[(frame * components + (at % components)) * count + voxel] = data[at];
  }
  return planes;
}

/** A path as the person knows it: the directories above are those of the job. */
function nameOf(file) {
  return path.basename(path.resolve(file));
}

/** Writes `data` where `like` lies, in the format of the name. */
export async function writeVolume(file, like, data, frames = 1) {
  const { size, affine, hasOrientation } = like;
  try {
    await mkdir(path.dirname(path.resolve(file)), { recursive: true });
    await write(file, { size, affine, hasOrientation, data, frames });
  } catch (error) {
    const fault = error instanceof VolumeError ? error.message : undefined;
    throw new ServiceError(
      fault ?? `${nameOf(file)} cannot be written (${error.message}): is the disk full?`,
    );
  }
}

/** Refuses two volumes whose voxels do not lie at the same places. */
export function requireSameGeometry(one, oneName, other, otherName) {
  if (isSameGeometry(one, other)) return;
  const fields = {
    size: (volume) => volume.size,
    spacing: spacingOf,
    origin: ({ affine }) => affine.map((row) => row[3]),
    direction: ({ affine }) => affine.flatMap((row) => row.slice(0, 3)),
  };
  const differs = ([, of]) => of(one).some((value, i) => Math.abs(value - of(other)[i]) > 1e-3);
  const [field, of] = Object.entries(fields).find(differs) ?? ['direction', fields.direction];
  const show = (volume) =>
    of(volume)
      .map((value) => Number(value.toFixed(4)))
      .join(' ');
  throw new AppError(
    `${oneName} and ${otherName} differ in ${field} (${show(one)} against ${show(other)}): resample one onto the other.`,
  );
}
