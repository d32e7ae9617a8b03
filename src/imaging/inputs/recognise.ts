import { readFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import {
  type DicomHeader,
  isDicomStart,
  isImage,
  isSegmentation,
  readStart,
} from '@remote-app/volumes/headers';
import { firstBytes, TimeSlice } from '../../files/index.js';
import { type Obstacles, readingFault } from './entries.js';
import { dicom, formatOf, hasDicomName, withoutVolumeEnding } from './formats.js';
import type { DicomFile } from './series.js';

/** A file found in a directory or its subdirectories. */
export interface FoundFile {
  readonly path: string;
  readonly size: number;
}

/** A file with what its content shows. */
export interface Recognised extends FoundFile {
  readonly header: DicomHeader | null;
  /** DICOM, the name of another format, or null. */
  readonly format: string | null;
  readonly isPicture: boolean;
  /** Why it cannot be sent: it is a truncated DICOM image. Null for any other file. */
  readonly fault: string | null;
}

/** Why no program can read a volume, worded to follow its path; null if nothing is wrong with it. */
export async function volumeFault(file: string): Promise<string | null> {
  // Imported lazily: most files of DICOM series are known to be whole without it.
  const { faultOfVolume } = await import('@remote-app/volumes');
  const fault = /\.bz2$/i.test(file) ? bzip2Fault(file) : faultOfVolume(file);
  return fault.catch(readingFault);
}

/** Why a bzip2 file is not complete; null if it is. It ends with a 48-bit marker, a 32-bit checksum and up to 7 bits of padding. */
async function bzip2Fault(file: string): Promise<string | null> {
  await using handle = await open(file);
  const { size } = await handle.stat();
  const { buffer } = await handle.read(Buffer.alloc(11), 0, 11, Math.max(0, size - 11));
  const end = BigInt(`0x${buffer.toString('hex')}`);
  const isWhole = [0, 1, 2, 3, 4, 5, 6, 7].some(
    (bits) => BigInt.asUintN(48, end >> BigInt(32 + bits)) === 0x1772_4538_5090n,
  );
  return isWhole
    ? null
    : 'is cut short: the end of its packed data is missing; copy it again from the original';
}

/** Number of files read at the same time: on a network file system, each read waits for a response. */
const atOnce = 16;

async function recogniseOne({ path, size }: FoundFile, obstacles: Obstacles): Promise<Recognised | null> {
  const named = hasDicomName(path) ? dicom : null;
  try {
    const start = size === 0 ? null : await readStart(path);
    const header = start?.dicom;
    if (header) {
      const hasPixels = isImage(header) || isSegmentation(header);
      const isChecked = obstacles.purpose === 'sent' && hasPixels && !start.isWhole;
      const fault = isChecked ? await volumeFault(path) : null;
      return { path, size, header, format: dicom, isPicture: false, fault };
    }
    const bytes = start?.bytes ?? Buffer.alloc(0);
    const format = formatOf(path, bytes);
    const name = isDicomStart(bytes) ? dicom : (format?.name ?? named);
    return { path, size, header: null, format: name, isPicture: format?.isPicture ?? false, fault: null };
  } catch (cause) {
    obstacles.add(path, readingFault(cause));
    return null;
  }
}

/**
 * Recognises files by their first bytes, several at a time. A file that cannot be read becomes an obstacle.
 * @param onRead called after each file
 */
export async function recognise(
  files: readonly FoundFile[],
  obstacles: Obstacles,
  onRead?: (done: number, total: number) => void,
): Promise<Recognised[]> {
  const all: (Recognised | null)[] = [];
  const left = files.entries();
  const slice = new TimeSlice();
  let done = 0;
  const readLeft = async () => {
    for (const [index, file] of left) {
      await slice.pause();
      all[index] = await recogniseOne(file, obstacles);
      done += 1;
      onRead?.(done, files.length);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, readLeft));
  return all.filter((each) => each !== null);
}

/** Splits elements into those for which the condition holds and the others. */
export function partition<T>(elements: readonly T[], condition: (element: T) => boolean): [T[], T[]] {
  const [yes, no]: [T[], T[]] = [[], []];
  for (const element of elements) (condition(element) ? yes : no).push(element);
  return [yes, no];
}

const isProbabilities = ({ path }: FoundFile): boolean => /\.npz$/i.test(path);

/** Separates the probability files of nnU-Net, named like the segmentation beside them, from the volumes. */
export function splitCompanions(
  volumes: readonly Recognised[],
): [companions: Recognised[], volumes: Recognised[]] {
  const stemOf = ({ path }: FoundFile) => withoutVolumeEnding(path);
  const stems = new Set(volumes.filter((file) => !isProbabilities(file)).map(stemOf));
  return partition(volumes, (file) => isProbabilities(file) && stems.has(stemOf(file)));
}

/** Maximum size of files that are compared, in bytes: slices are far smaller. */
const maxCompared = 64 << 20;

/** Whether two files have the same content. */
const areCopies = (a: FoundFile, b: FoundFile): boolean =>
  a.size === b.size && a.size <= maxCompared && readFileSync(a.path).equals(readFileSync(b.path));

/** Separates duplicate images, such as those of an export to two directories. Different images with the same UID are all kept. */
export function splitCopies(images: readonly DicomFile[]): { images: DicomFile[]; copies: DicomFile[] } {
  const byUid = new Map<string, DicomFile>();
  const copies = images.filter((file) => {
    const uid = file.header?.instanceUid;
    if (uid === null || uid === undefined) return false;
    const first = byUid.get(uid);
    if (first) return areCopies(first, file);
    byUid.set(uid, file);
    return false;
  });
  const isCopy = new Set(copies);
  return { images: images.filter((file) => !isCopy.has(file)), copies };
}

/** Whether a file begins like DICOM. False if it cannot be read: sending it then reports the reason. */
const isDicomFile = (file: string): boolean => isDicomStart(firstBytes(file, 256));

/**
 * Number of DICOM files among the named files. Nearly always all or none are DICOM, so the others are read only if the first one
 * is.
 */
export const countSlices = (files: readonly string[]): number =>
  files[0] !== undefined && isDicomFile(files[0]) ? files.filter(isDicomFile).length : 0;
