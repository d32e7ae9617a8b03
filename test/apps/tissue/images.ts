import { readFile } from 'node:fs/promises';
import path from 'node:path';
import {
  type Affine,
  type Geometry,
  readVolume,
  type Volume,
  type WritableVolume,
  writeVolume,
} from '@remote-app/volumes';

export const readImage = (...file: string[]): Promise<Volume> => readVolume(path.join(...file));

/** What is said of a volume made by hand. `origin` is in millimetres to the left, to the back and upwards. */
interface Given extends Partial<Pick<WritableVolume, 'size' | 'affine' | 'frames'>> {
  readonly spacing?: readonly number[];
  readonly origin?: readonly number[];
}

/** Writes a volume whose axes run to the left, to the back and upwards, unless its affine is given. */
export async function writeImage(
  file: string,
  data: WritableVolume['data'],
  given: Given = {},
): Promise<void> {
  const { spacing = [1, 1, 1], origin = [0, 0, 0], size = [4, 4, 4], frames = 1 } = given;
  const affine = [-1, -1, 1].map((sign, row) => [
    ...spacing.map((step, axis) => (axis === row ? sign * step : 0)),
    sign * (origin[row] ?? 0),
  ]) as unknown as Affine;
  await writeVolume(path.resolve(file), { size, affine, data, frames, ...given });
}

/** Where the voxels lie, rounded to what a NIfTI header's 32-bit floats can hold. */
export const geometryOf = ({ size, affine }: Geometry) => ({
  size: [...size],
  affine: affine.map((row) => row.map((value) => Math.round(value * 1e4) / 1e4 + 0)),
});

export async function readJson<T>(...file: string[]): Promise<T> {
  return JSON.parse(await readFile(path.join(...file), 'utf8')) as T;
}
