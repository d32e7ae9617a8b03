import { open } from 'node:fs/promises';
import path from 'node:path';
import { constants, gunzipSync } from 'node:zlib';
import { beginsAsNifti, openNifti } from './nifti.js';
import { type Volume, VolumeError, type VolumeFile, type Voxels } from './volume.js';

/** Bytes that are read of a file to recognise it, and to read most headers. */
const startBytes = 64 * 1024;

const isGzip = (bytes: Buffer): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b;

/** The first bytes of a file, unpacked. */
async function startOf(file: string): Promise<{ readonly start: Buffer; readonly isPacked: boolean }> {
  const handle = await open(file).catch((error: NodeJS.ErrnoException) => {
    const why = error.code === 'ENOENT' ? 'does not exist' : `cannot be read (${error.message})`;
    throw new VolumeError(`${path.basename(file)} ${why}.`);
  });
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(startBytes), 0, startBytes, 0);
    const bytes = buffer.subarray(0, bytesRead);
    if (!isGzip(bytes)) return { start: bytes, isPacked: false };
    return { start: gunzipSync(bytes, { finishFlush: constants.Z_SYNC_FLUSH }), isPacked: true };
  } catch (error) {
    throw new VolumeError(`${path.basename(file)} cannot be read: ${(error as Error).message}.`);
  } finally {
    await handle.close();
  }
}

/**
 * Reads the header of a volume.
 * @throws VolumeError for what is no volume of a known format, or is truncated or damaged
 */
export async function openVolume(file: string): Promise<VolumeFile> {
  const { start, isPacked } = await startOf(file);
  if (beginsAsNifti(start)) return openNifti(file, start, isPacked);
  throw new VolumeError(`${path.basename(file)} cannot be read as a volume: give a NIfTI file.`);
}

/**
 * Reads a volume into memory.
 * @param options which of several volumes of the file; all of them if it is not given
 * @throws VolumeError
 */
export async function readVolume(file: string, options: { readonly frame?: number } = {}): Promise<Volume> {
  const { slices, path: _, ...header } = await openVolume(file);
  const frames =
    options.frame === undefined ? Array.from({ length: header.frames }, (_each, at) => at) : [options.frame];
  const [ni, nj, nk] = header.size;
  const inSlice = ni * nj * header.components;
  let data: Voxels = new Uint8Array(0);
  for (const [at, frame] of frames.entries()) {
    for await (const { k, values } of slices({ frame })) {
      if (at === 0 && k === 0)
        data = new (values.constructor as new (length: number) => Voxels)(inSlice * nk * frames.length);
      data.set(values, (at * nk + k) * inSlice);
    }
  }
  return { ...header, frames: frames.length, data };
}
