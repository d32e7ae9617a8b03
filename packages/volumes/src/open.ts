import { open, stat } from 'node:fs/promises';
import path from 'node:path';
import { type DicomOptions, isDicom, openDicom } from './dicom.js';
import { isFreeSurfer, openFreeSurfer } from './freesurfer.js';
import { headerNamesOf } from './headers/data-files.js';
import { isGzip, unzippedStart } from './headers/dicom-start.js';
import { beginsAsNifti } from './headers/nifti-layout.js';
import { beginsAsMetaImage, beginsAsNrrd } from './headers/text-headers.js';
import { openMetaImage } from './meta-image.js';
import { openNifti } from './nifti.js';
import { openNrrd } from './nrrd.js';
import { notUnpacked, type StoredVolume, storedData } from './stored-voxels.js';
import { arrayLike, type Volume, VolumeError, type VolumeFile, type Voxels } from './volume.js';

// Why not @itk-wasm/image-io: it cannot read less than a whole volume. Of a packed CT of 512 x 512 x 300 voxels (157 MB) it takes
// 670 MiB and 3.9 s, where this takes 235 MiB and 1.9 s for all of it, and 83 MiB and 0.3 s for a slice in the middle; and it
// installs 27 MB. dicom-parser reads headers of DICOM without the pixels, in 0.1 MB.

/** Bytes that are read of a file that is not packed: more than a header has. */
const startBytes = 1024 * 1024;

/** Bytes that are read of any file first: the headers of packed formats are short. */
const packedBytes = 4096;

/** The first bytes of a file, unpacked. */
async function startOf(file: string): Promise<{ readonly start: Buffer; readonly isPacked: boolean }> {
  const handle = await open(file).catch((error: NodeJS.ErrnoException) => {
    const why = error.code === 'ENOENT' ? 'does not exist' : `cannot be read (${error.message})`;
    throw new VolumeError(`${path.basename(file)} ${why}.`);
  });
  let bytes: Buffer;
  try {
    const read = async (most: number) => {
      const { buffer, bytesRead } = await handle.read(Buffer.allocUnsafe(most), 0, most, 0);
      return buffer.subarray(0, bytesRead);
    };
    bytes = await read(packedBytes);
    if (!isGzip(bytes) && bytes.length === packedBytes)
      bytes = await read(Math.min(startBytes, (await handle.stat()).size));
  } catch (error) {
    throw new VolumeError(`${path.basename(file)} cannot be read (${(error as Error).message}).`);
  } finally {
    await handle.close();
  }
  if (!isGzip(bytes)) return { start: bytes, isPacked: false };
  try {
    return { start: unzippedStart(bytes), isPacked: true };
  } catch (error) {
    throw notUnpacked(file, (error as Error).message);
  }
}

/**
 * Reads the header of a volume: of a file, or of a directory with one DICOM series.
 * @throws VolumeError for what is no volume of a known format, or is truncated or damaged
 */
export async function openVolume(file: string, options: DicomOptions = {}): Promise<VolumeFile> {
  return openFile(file, options);
}

async function openFile(file: string, options: DicomOptions): Promise<VolumeFile | StoredVolume> {
  if ((await stat(file).catch(() => null))?.isDirectory()) return openDicom(file, options);
  const { start, isPacked } = await startOf(file);
  if (beginsAsNifti(start)) return openNifti(file, start, isPacked);
  if (isFreeSurfer(file, start)) return openFreeSurfer(file, start, isPacked);
  if (beginsAsNrrd(start)) return openNrrd(file, start);
  if (beginsAsMetaImage(start)) return openMetaImage(file, start);
  if (isDicom(file, start)) return openDicom(file, options);
  // Of a pair, either file may be given.
  const header = await headerOf(file);
  if (header) return openFile(header, options);
  throw new VolumeError(
    `${path.basename(file)} cannot be read as a volume: give a NIfTI, NRRD, MetaImage, FreeSurfer or DICOM file, or a directory with a DICOM series.`,
  );
}

/**
 * Reads a volume into memory.
 * @param file a path, or a volume whose header has been read
 * @param options which of several volumes of the file; all of them if it is not given
 * @throws VolumeError
 */
export async function readVolume(
  file: string | VolumeFile,
  options: { readonly frame?: number } & DicomOptions = {},
): Promise<Volume> {
  const opened = typeof file === 'string' ? await openFile(file, options) : file;
  const { size, affine, format, components, hasOrientation, modality, labels, unit, isInverted } = opened;
  const frames = options.frame === undefined ? opened.frames : 1;
  const data = isStored(opened)
    ? await storedData(opened.stored, options.frame)
    : await dataOf(opened, options.frame);
  const header = { size, affine, format, components, frames, hasOrientation, modality, labels };
  return { ...header, ...(unit && { unit }), ...(isInverted && { isInverted }), data };
}

const isStored = (volume: VolumeFile): volume is StoredVolume => 'stored' in volume;

/** The voxels of one frame, or of all one after another. */
async function dataOf({ size, components, frames, slices }: VolumeFile, frame?: number): Promise<Voxels> {
  const wanted = frame === undefined ? Array.from({ length: frames }, (_, at) => at) : [frame];
  const inSlice = size[0] * size[1] * components;
  let data: Voxels | null = null;
  for (const [at, each] of wanted.entries())
    for await (const { k, values } of slices({ frame: each })) {
      data ??= arrayLike(values, inSlice * size[2] * wanted.length);
      data.set(values, (at * size[2] + k) * inSlice);
    }
  return data ?? new Uint8Array(0);
}

/** The header beside a file of voxels; null if there is none. */
async function headerOf(voxels: string): Promise<string | null> {
  for (const name of headerNamesOf(voxels)) if ((await stat(name).catch(() => null))?.isFile()) return name;
  return null;
}
