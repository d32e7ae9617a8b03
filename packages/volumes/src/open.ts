import { createReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { type DicomOptions, isDicom, openDicom } from './dicom.js';
import { isFreeSurfer, openFreeSurfer } from './freesurfer.js';
import { firstFile, headerNamesOf } from './headers/data-files.js';
import { isGzip, readBytes, unzippedStart } from './headers/dicom-start.js';
import { beginsAsNifti } from './headers/nifti-layout.js';
import { beginsAsMetaImage, beginsAsNrrd } from './headers/text-headers.js';
import { openMetaImage } from './meta-image.js';
import { openNifti } from './nifti.js';
import { openNrrd } from './nrrd.js';
import { notUnpacked, requirePackedVoxels, type StoredVolume, storedData } from './stored-voxels.js';
import {
  arrayLike,
  TruncatedVolume,
  type Volume,
  VolumeError,
  type VolumeFile,
  type Voxels,
} from './volume.js';

/** Bytes of a file that are read for its header: at first, and for a longer text header. */
const [firstBytes, textBytes] = [4096, 1 << 20];

/** The first bytes of a file, unpacked. */
async function startOf(file: string): Promise<{ readonly start: Buffer; readonly isPacked: boolean }> {
  const handle = await open(file).catch((error: NodeJS.ErrnoException) => {
    const why = error.code === 'ENOENT' ? 'does not exist' : `cannot be read (${error.message})`;
    throw new VolumeError(`${path.basename(file)} ${why}.`);
  });
  let bytes: Buffer;
  try {
    bytes = await readBytes(handle, firstBytes);
    if (bytes.length === firstBytes && (beginsAsNrrd(bytes) || beginsAsMetaImage(bytes)))
      bytes = await readBytes(handle, Math.min(textBytes, (await handle.stat()).size));
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
 * Opens a volume, a file or a directory with one DICOM series, and reads its header.
 * @throws VolumeError for anything but a volume of a known format, and for a truncated or damaged file
 */
export async function openVolume(file: string, options: DicomOptions = {}): Promise<VolumeFile> {
  return openFile(file, options);
}

async function openFile(file: string, options: DicomOptions): Promise<VolumeFile | StoredVolume> {
  if ((await stat(file).catch(() => null))?.isDirectory()) return openDicom(file, options);
  const { start, isPacked } = await startOf(file);
  if (isPacked && isGzip(start))
    throw new TruncatedVolume(
      `${path.basename(file)} is damaged: it is packed with gzip twice, unpack it once.`,
    );
  if (start.length < 348 && /^(?:5c010000|0000015c)/.test(start.toString('hex')))
    throw new TruncatedVolume(`${path.basename(file)} is cut short in its header.`);
  if (beginsAsNifti(start)) return openNifti(file, start, isPacked);
  if (isFreeSurfer(file, start)) return openFreeSurfer(file, start, isPacked);
  if (isPacked && (beginsAsNrrd(start) || beginsAsMetaImage(start)))
    throw new VolumeError(`${path.basename(file)} is packed with gzip as a whole: unpack it first (gunzip).`);
  if (beginsAsNrrd(start)) return openNrrd(file, start);
  if (beginsAsMetaImage(start)) return openMetaImage(file, start);
  if (isDicom(file, start)) return openDicom(file, options);
  // The path may name either file of a pair.
  const header = await firstFile(headerNamesOf(file));
  if (header) return openFile(header, options);
  throw new VolumeError(
    `${path.basename(file)} cannot be read as a volume: give a NIfTI, NRRD, MetaImage, FreeSurfer or DICOM file, or a directory with a DICOM series.`,
  );
}

/**
 * Reads a volume into memory.
 * @param file a path, or a volume whose header has been read
 * @param options `frame`: which of several volumes in the file to read; all by default
 * @throws VolumeError
 */
export async function readVolume(
  file: string | VolumeFile,
  options: { readonly frame?: number } & DicomOptions = {},
): Promise<Volume> {
  const opened = typeof file === 'string' ? await openFile(file, options) : file;
  const { size, affine, format, components, hasOrientation, modality, labels, unit, isInverted } = opened;
  const { hasContradictorySides, qform, hasVectors, secondsPerFrame } = opened;
  const frames = options.frame === undefined ? opened.frames : 1;
  const data = isStored(opened)
    ? await storedData(opened.stored, options.frame)
    : await dataOf(opened, options.frame);
  const header = { size, affine, format, components, frames, hasOrientation, modality, labels };
  return {
    ...header,
    ...(unit && { unit }),
    ...(isInverted && { isInverted }),
    ...(hasContradictorySides && { hasContradictorySides }),
    ...(qform && { qform }),
    ...(frames > 1 && hasVectors && { hasVectors }),
    ...(frames > 1 && secondsPerFrame && { secondsPerFrame }),
    data,
  };
}

const isStored = (volume: VolumeFile): volume is StoredVolume => 'stored' in volume;

/** The voxels of one frame, or of all frames one after another. */
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

/** Names of files packed with gzip, and of files that programs expect to be unpacked. */
const [packedName, plainName] = [/\.(gz|mgz)$/i, /\.(nii|hdr|img|mgh|nrrd|nhdr|mha|mhd|dcm|dicom|ima)$/i];

/**
 * Why no program can read a volume, worded to follow its name: it is truncated, or not packed as its name says. Null for any
 * other file, even of an unsupported format. Reads only headers, unless unpacking the voxels is the only way to tell whether they
 * are complete.
 * @throws the system's error for a file that cannot be read
 */
export async function faultOfVolume(file: string): Promise<string | null> {
  await using handle = await open(file);
  const isPacked = isGzip(await readBytes(handle, 2));
  if (isPacked && plainName.test(file))
    return 'is packed with gzip, which its name does not say: unpack it, or add .gz to its name';
  if (!isPacked && packedName.test(file))
    return 'is not packed with gzip, as its name says: take the ending .gz from its name, or copy it again from the original';
  try {
    const volume = await openFile(file, {}).catch((error) => {
      if (error instanceof TruncatedVolume || !(error instanceof VolumeError)) throw error;
      return null;
    });
    if (volume && isStored(volume)) await requirePackedVoxels(volume.stored);
    else if (volume?.format === 'NRRD') for await (const _ of volume.slices({ only: [volume.size[2] - 1] }));
    else if (isPacked) await unpackAll(file);
    return null;
  } catch (error) {
    if (!(error instanceof TruncatedVolume)) throw error;
    return error.message.replace(/^.*? is (cut short|damaged)/, 'is $1').replace(/\.$/, '');
  }
}

/** Unpacks a file of an unsupported format as a test. @throws VolumeError if unpacking fails */
async function unpackAll(file: string): Promise<void> {
  const ignored = async (chunks: AsyncIterable<Buffer>) => {
    for await (const _ of chunks);
  };
  await pipeline(createReadStream(file), createGunzip(), ignored).catch((error: NodeJS.ErrnoException) => {
    throw error.syscall ? error : notUnpacked(file, error.message);
  });
}
