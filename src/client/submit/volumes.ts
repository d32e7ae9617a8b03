import { open, readdir } from 'node:fs/promises';
import path from 'node:path';

export const isHidden = (name: string): boolean => name.startsWith('.');

/** Files that are volumes on their own: where one lies, the directory is a folder of volumes. */
const otherVolume = /\.(nii(\.gz)?|mha|mhd|nrrd|nhdr|h5|hdf5|tiff?|npy|npz|img|gipl)$/i;
const dicomName = /\.(dcm|ima|dicom)$/i;
/** Where a DICOM file carries its four magic bytes. */
const magicOffset = 128;

async function hasDicomMagic(file: string): Promise<boolean> {
  const handle = await open(file);
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(4), 0, 4, magicOffset);
    return bytesRead === 4 && buffer.toString('latin1') === 'DICM';
  } finally {
    await handle.close();
  }
}

/** Whether a directory is an OME-Zarr store: by its name, or by the file that is at the root of every store. */
export async function isZarrStore(directory: string): Promise<boolean> {
  if (/\.zarr$/i.test(directory)) return true;
  const names = await readdir(directory);
  return names.includes('.zgroup') || names.includes('.zarray') || names.includes('zarr.json');
}

/**
 * Whether a directory is one DICOM series: a slice lies directly in it, and no volume of another kind does.
 * Slices without a name ending are known by their magic bytes; three files are looked into, not thousands.
 */
export async function isDicomSeries(directory: string): Promise<boolean> {
  const entries = await readdir(directory, { withFileTypes: true });
  const files = entries.filter(
    (entry) =>
      (entry.isFile() || entry.isSymbolicLink()) && !isHidden(entry.name) && !/^DICOMDIR$/i.test(entry.name),
  );
  if (files.some((file) => otherVolume.test(file.name))) return false;
  if (files.some((file) => dicomName.test(file.name))) return true;
  for (const file of files.filter((each) => each.isFile()).slice(0, 3)) {
    if (await hasDicomMagic(path.join(directory, file.name))) return true;
  }
  return false;
}

/**
 * Which files of a packed directory travel: hidden ones stay behind, except inside a `.zarr` store, whose
 * metadata is in hidden files.
 */
export function travels(relativePath: string): boolean {
  const parts = relativePath.split('/');
  for (const part of parts) {
    if (/\.zarr$/i.test(part)) return true;
    if (isHidden(part)) return false;
  }
  return true;
}
