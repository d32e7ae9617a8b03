import { closeSync, type Dirent, openSync, readSync, statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import path from 'node:path';

export const isHidden = (name: string): boolean => name.startsWith('.');

/** Files that are volumes of their own. A directory that holds one is a folder of volumes, not a DICOM series. */
const otherVolume = /\.(nii(\.gz)?|mha|mhd|nrrd|nhdr|h5|hdf5|tiff?|npy|npz|img|gipl)$/i;
const dicomName = /\.(dcm|ima|dicom)$/i;

/** Whether a file holds voxels, by its name. */
export const isVolumeName = (name: string): boolean => otherVolume.test(name) || dicomName.test(name);

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

/** The entries of a directory; none of one that cannot be read, which whoever sends it finds out. */
const listed = (directory: string): Promise<Dirent[]> =>
  readdir(directory, { withFileTypes: true }).catch(() => []);

/** Whether a directory is an OME-Zarr store: by its name, or by the metadata file at the root of every store. */
export async function isZarrStore(directory: string): Promise<boolean> {
  if (/\.zarr$/i.test(directory)) return true;
  const names = (await listed(directory)).map(({ name }) => name);
  return names.includes('.zgroup') || names.includes('.zarray') || names.includes('zarr.json');
}

/**
 * Whether a directory is one DICOM series: it directly contains a slice, and no volume of another format. Slices without a
 * file name extension are recognised by their magic bytes; only the first three files are opened.
 */
export async function isDicomSeries(directory: string): Promise<boolean> {
  const files = (await listed(directory)).filter(
    (entry) =>
      (entry.isFile() || entry.isSymbolicLink()) && !isHidden(entry.name) && !/^DICOMDIR$/i.test(entry.name),
  );
  if (files.some((file) => otherVolume.test(file.name))) return false;
  if (files.some((file) => dicomName.test(file.name))) return true;
  return files.slice(0, 3).some((file) => hasDicomMagic(path.join(directory, file.name)));
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
