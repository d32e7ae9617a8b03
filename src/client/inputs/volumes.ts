import type { Dirent } from 'node:fs';
import { readdir, realpath } from 'node:fs/promises';
import path from 'node:path';
import { firstBytes } from '../../files/index.js';
import { isCloudPlaceholder, lookAt } from './entries.js';

/** The position of the magic bytes, behind the preamble. */
const magicOffset = 128;
const magic = 'DICM';

/** Bytes that are read: the preamble, or the first two elements of a file without one. */
const span = 256;

/** Lengths that the value of a first element may have. */
interface Known {
  readonly vr: string;
  readonly least: number;
  readonly most: number;
}

const uid: Known = { vr: 'UI', least: 10, most: 64 };
const date: Known = { vr: 'DA', least: 8, most: 8 };
const groupLength: Known = { vr: 'UL', least: 4, most: 4 };
const text: Known = { vr: 'CS', least: 2, most: 128 };

/** The elements that a data set without a preamble begins with, by group and element. */
const firstElements: ReadonlyMap<number, Known> = new Map([
  [0x0002_0000, groupLength],
  [0x0008_0000, groupLength],
  [0x0008_0001, groupLength],
  [0x0008_0005, text],
  [0x0008_0008, text],
  [0x0008_0012, date],
  [0x0008_0016, uid],
  [0x0008_0018, uid],
]);

/** What stands in values of text of these elements. */
const plainText = /^[A-Z0-9._ \\-]*\0?$/i;

const tagAt = (bytes: Buffer, at: number): number =>
  bytes.readUInt16LE(at) * 0x1_0000 + bytes.readUInt16LE(at + 2);

/**
 * Whether bytes are the beginning of a data set in little endian without a preamble, as old systems write them. Strict,
 * since a wrong yes would make one series of several volumes: the first element must be one of a few, have a value that
 * it can have, and be followed by a later element of the same group.
 */
function beginsDataSet(bytes: Buffer): boolean {
  if (bytes.length < 16) return false;
  const first = tagAt(bytes, 0);
  const known = firstElements.get(first);
  if (!known) return false;
  const isExplicit = bytes.toString('latin1', 4, 6) === known.vr;
  const length = isExplicit ? bytes.readUInt16LE(6) : bytes.readUInt32LE(4);
  const next = 8 + length;
  if (length % 2 === 1 || length < known.least || length > known.most || next + 8 > bytes.length)
    return false;
  if (known !== groupLength && !plainText.test(bytes.toString('latin1', 8, next))) return false;
  const second = tagAt(bytes, next);
  if (second <= first || second >> 16 !== first >> 16) return false;
  if (isExplicit) return /^[A-Z]{2}$/.test(bytes.toString('latin1', next + 4, next + 6));
  return bytes.readUInt32LE(next + 4) <= known.most + 1024;
}

/** Whether a file is DICOM by its first bytes. False also if it cannot be read: sending it then fails with the reason. */
function isDicom(file: string): boolean {
  const start = firstBytes(file, span);
  return start.toString('latin1', magicOffset, magicOffset + magic.length) === magic || beginsDataSet(start);
}

/**
 * Endings of files that describe volumes, say something about a data set, or belong to the viewer on a patient's disc. A set,
 * since V8 takes 2 ms to compile so many words as a pattern that ignores case, in each start of a command.
 */
const endings = new Set(
  'json bval bvec txt tsv csv md rst cff pdf doc docx xlsx htm html xml log md5 sha256 lut py inf ini exe dll bat lnk ico chm url'.split(
    ' ',
  ),
);

/** Names of such files that have no ending, and of what systems and DICOM leave in directories. */
const names = new Set(['readme', 'changes', 'changelog', 'licence', 'license', 'dicomdir', 'thumbs.db']);

/** Whether a file belongs to volumes and is not one itself, by its name. */
export function isSidecar(file: string): boolean {
  const name = path
    .basename(file)
    .toLowerCase()
    .replace(/\.(tsv|csv|json|txt)\.gz$/, '.$1');
  const dot = name.lastIndexOf('.');
  return (dot >= 0 && endings.has(name.slice(dot + 1))) || names.has(name);
}

/** What systems and storage devices leave in directories: recycle bins, previews, marks of downloads. */
const leftover =
  /^(#recycle|\$recycle\.bin|@eadir|lost\+found|system volume information|desktop\.ini|icon\r)$|:zone\.identifier$/i;

/** Whether an entry of a directory is hidden, or left there by a system. The placeholder of a file in iCloud is neither. */
export const isHidden = (name: string): boolean =>
  (name.startsWith('.') && !isCloudPlaceholder(name)) || leftover.test(name);

/** Volumes of other formats than DICOM. */
const otherVolume = /\.(nii(\.gz)?|mha|mhd|nrrd|nhdr|h5|hdf5|tiff?|npy|npz|img|gipl)$/i;
const dicomName = /\.(dcm|ima|dicom)$/i;

/** Whether a file is of DICOM by its name. */
const hasDicomName = (name: string): boolean => dicomName.test(name);

/** Whether a file holds voxels, by its name. */
export const isVolumeName = (name: string): boolean => otherVolume.test(name) || hasDicomName(name);

/** The entries of a directory that are not hidden; none if it cannot be read: sending it then fails with the reason. */
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
