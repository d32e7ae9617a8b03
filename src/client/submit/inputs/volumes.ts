import type { Dirent } from 'node:fs';
import { readdir, realpath } from 'node:fs/promises';
import path from 'node:path';
import { isDicom } from './dicom.js';
import { lookAt } from './look.js';
import { isSidecar } from './sidecars.js';

export const isHidden = (name: string): boolean => name.startsWith('.');

/** Volumes of other formats than DICOM. */
const otherVolume = /\.(nii(\.gz)?|mha|mhd|nrrd|nhdr|h5|hdf5|tiff?|npy|npz|img|gipl)$/i;
const dicomName = /\.(dcm|ima|dicom)$/i;

/** Whether a file is of DICOM by its name. */
const hasDicomName = (name: string): boolean => dicomName.test(name);

/** Whether a file holds voxels, by its name. */
export const isVolumeName = (name: string): boolean => otherVolume.test(name) || hasDicomName(name);

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

/** Whether a file is a slice of a DICOM series: by its name, or by how it begins. */
export const isSlice = (file: string): boolean =>
  hasDicomName(file) || (!isSidecar(file) && !otherVolume.test(file) && isDicom(file));

/** Files that lie beside slices and are certainly none. */
const otherFile =
  /\.(jpe?g|png|bmp|gif|mp4|avi|zip|tar|gz|7z|z?raw|hdr|mat|py|m|sh|docx?|xlsx?|db|lock|tmp|bak)$/i;

/** How many files are opened at the start, in the middle and at the end of a directory. */
const looks = 3;

/** A few elements from the start, the middle and the end. */
function sampleOf<T>(all: readonly T[]): T[] {
  const starts = [0, Math.floor((all.length - looks) / 2), all.length - looks];
  return [...new Set(starts.flatMap((start) => all.slice(Math.max(0, start), Math.max(0, start) + looks)))];
}

/** Those of many files that are slices. All are opened only if one of a few is a slice: opening thousands takes long. */
export const slicesOf = (files: readonly string[]): string[] =>
  files.filter(sampleOf(files).some(isSlice) ? isSlice : hasDicomName);

/**
 * Whether a directory directly contains a slice. Slices without a file name extension are recognised by how they begin; only
 * a few files are opened.
 */
export async function holdsSlices(directory: string): Promise<boolean> {
  const files = (await listed(directory)).filter(
    ({ name, isDirectory }) => !isDirectory && !isSidecar(name) && !otherVolume.test(name),
  );
  if (files.some(({ name }) => hasDicomName(name))) return true;
  return sampleOf(files.filter(({ name }) => !otherFile.test(name))).some((file) => isDicom(file.path));
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
