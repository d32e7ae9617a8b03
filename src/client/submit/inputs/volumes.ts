import { closeSync, type Dirent, openSync, readSync, statSync } from 'node:fs';
import { readdir, realpath } from 'node:fs/promises';
import path from 'node:path';
import { lookAt } from './look.js';
import { isSidecar } from './sidecars.js';

export const isHidden = (name: string): boolean => name.startsWith('.');

/** Volumes of other formats than DICOM. */
const otherVolume = /\.(nii(\.gz)?|mha|mhd|nrrd|nhdr|h5|hdf5|tiff?|npy|npz|img|gipl)$/i;
const dicomName = /\.(dcm|ima|dicom)$/i;

/** Whether a file is of DICOM by its name. */
export const hasDicomName = (name: string): boolean => dicomName.test(name);

/** Whether a file holds voxels, by its name. */
export const isVolumeName = (name: string): boolean => otherVolume.test(name) || hasDicomName(name);

/** The position of a DICOM file's magic bytes. */
const magicOffset = 128;

/** False also for what cannot be read: whoever sends it finds out. */
function hasDicomMagic(file: string): boolean {
  try {
    if (!statSync(file).isFile()) return false;
    const descriptor = openSync(file, 'r');
    try {
      const buffer = Buffer.alloc(4);
      return readSync(descriptor, buffer, 0, 4, magicOffset) === 4 && buffer.toString('latin1') === 'DICM';
    } finally {
      closeSync(descriptor);
    }
  } catch {
    return false;
  }
}

/** The entries of a directory that are not hidden; none of one that cannot be read, which whoever sends it finds out. */
async function listed(directory: string): Promise<{ name: string; path: string; isDirectory: boolean }[]> {
  const entries = await readdir(directory, { withFileTypes: true }).catch((): Dirent[] => []);
  return entries
    .filter(({ name }) => !isHidden(name))
    .map((entry) => {
      const target = path.join(directory, entry.name);
      const isDirectory = entry.isSymbolicLink()
        ? (lookAt(target)?.stats?.isDirectory() ?? false)
        : entry.isDirectory();
      return { name: entry.name, path: target, isDirectory };
    });
}

/** Whether a directory is an OME-Zarr store: by its name, or by the metadata file at the root of every store. */
export async function isZarrStore(directory: string): Promise<boolean> {
  if (/\.zarr$/i.test(directory)) return true;
  const names = await readdir(directory).catch((): string[] => []);
  return names.includes('.zgroup') || names.includes('.zarray') || names.includes('zarr.json');
}

/** Whether a file is a slice of a DICOM series: by its name, or by the magic bytes of all DICOM files. */
export const isSlice = (file: string): boolean =>
  hasDicomName(file) || (!isSidecar(file) && !otherVolume.test(file) && hasDicomMagic(file));

/**
 * Whether a directory directly contains a slice. Slices without a file name extension are recognised by their magic bytes;
 * only the first three files are opened.
 */
export async function holdsSlices(directory: string): Promise<boolean> {
  const files = (await listed(directory)).filter(
    ({ name, isDirectory }) => !isDirectory && !isSidecar(name) && !otherVolume.test(name),
  );
  return files.some(({ name }) => hasDicomName(name)) || files.slice(0, 3).some((file) => isSlice(file.path));
}

/**
 * Whether a directory of slices has volumes beside them: files of another format, or directories with volumes.
 * @param isInput which directories count
 */
export async function holdsOtherVolumes(
  directory: string,
  isInput: (directory: string) => boolean,
  ancestors: readonly string[] = [],
): Promise<boolean> {
  const real = await realpath(directory);
  if (ancestors.includes(real)) return false;
  for (const entry of await listed(directory)) {
    if (!entry.isDirectory) {
      if (otherVolume.test(entry.name)) return true;
    } else if (isInput(entry.path)) {
      if ((await isZarrStore(entry.path)) || (await holdsSlices(entry.path))) return true;
      if (await holdsOtherVolumes(entry.path, isInput, [...ancestors, real])) return true;
    }
  }
  return false;
}

/**
 * Whether a file of a packed directory is sent. Hidden files are not, except inside a `.zarr` store, whose metadata is in
 * hidden files.
 */
export function travels(relativePath: string): boolean {
  const parts = relativePath.split('/');
  for (const part of parts) {
    if (/\.zarr$/i.test(part)) return true;
    if (isHidden(part)) return false;
  }
  return true;
}
