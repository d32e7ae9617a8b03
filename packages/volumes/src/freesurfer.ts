import path from 'node:path';
import { type StoredVolume, storedVolume, type VoxelsOfHeader } from './stored-voxels.js';
import { type ValueType, VolumeError } from './volume.js';

const types: Readonly<Record<number, ValueType>> = {
  0: 'uint8',
  1: 'int32',
  3: 'float32',
  4: 'int16',
  10: 'uint16',
};

const headerBytes = 284;

/** Whether a file is MGH or MGZ, by its name and its first unpacked bytes. */
export const isFreeSurfer = (file: string, start: Buffer): boolean =>
  /\.(mgh|mgz|mgh\.gz)$/i.test(file) && start.length >= headerBytes && start.readInt32BE(0) === 1;

/**
 * Opens a volume of MGH or MGZ (https://surfer.nmr.mgh.harvard.edu/fswiki/FsTutorial/MghFormat).
 * @param start the first bytes of the file, unpacked
 * @throws VolumeError
 */
export async function openFreeSurfer(file: string, start: Buffer, isPacked: boolean): Promise<StoredVolume> {
  const int = (at: number) => start.readInt32BE(at);
  const floats = (at: number, count: number) =>
    Array.from({ length: count }, (_, index) => start.readFloatBE(at + 4 * index));
  const type = types[int(20)];
  if (!type) throw new VolumeError(`${path.basename(file)} holds values of an unknown type (${int(20)}).`);
  const stored: VoxelsOfHeader = {
    path: file,
    dataFiles: [file],
    isPacked,
    start: headerBytes,
    type,
    isBigEndian: true,
    size: [int(4), int(8), int(12)],
    frames: int(16),
  };
  const { size } = stored;
  const isPlaced = start.readInt16BE(28) > 0;
  // FreeSurfer treats a volume without a position as coronal.
  const spacing = isPlaced ? floats(30, 3) : [1, 1, 1];
  const axes = isPlaced ? floats(42, 9) : [-1, 0, 0, 0, 0, -1, 0, 1, 0];
  const centre = isPlaced ? floats(78, 3) : [0, 0, 0];
  const affine = [0, 1, 2].map((row) => {
    const steps = [0, 1, 2].map((axis) => (axes[axis * 3 + row] ?? 0) * (spacing[axis] ?? 1));
    const half = steps.reduce((sum, step, axis) => sum + (step * (size[axis] ?? 1)) / 2, 0);
    return [...steps, (centre[row] ?? 0) - half];
  });
  return storedVolume(stored, affine, { format: 'FreeSurfer', hasOrientation: isPlaced });
}
