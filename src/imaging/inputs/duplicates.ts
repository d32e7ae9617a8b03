import { readFileSync } from 'node:fs';
import { withoutVolumeEnding } from './formats.js';
import type { FoundFile, Recognised } from './recognise.js';
import type { DicomFile } from './series.js';

/** The elements for which the condition holds, and the others. */
export function partition<T>(elements: readonly T[], condition: (element: T) => boolean): [T[], T[]] {
  const [yes, no]: [T[], T[]] = [[], []];
  for (const element of elements) (condition(element) ? yes : no).push(element);
  return [yes, no];
}

const isProbabilities = ({ path }: FoundFile): boolean => /\.npz$/i.test(path);

/** Separates nnU-Net's probability files, which have the name of the segmentation beside them, from the volumes. */
export function splitCompanions(
  volumes: readonly Recognised[],
): [companions: Recognised[], volumes: Recognised[]] {
  const stemOf = ({ path }: FoundFile) => withoutVolumeEnding(path);
  const stems = new Set(volumes.filter((file) => !isProbabilities(file)).map(stemOf));
  return partition(volumes, (file) => isProbabilities(file) && stems.has(stemOf(file)));
}

/** Largest files that are compared, in bytes: slices are far smaller. */
const maxCompared = 64 << 20;

/** Whether two files have the same content. */
const areCopies = (a: FoundFile, b: FoundFile): boolean =>
  a.size === b.size && a.size <= maxCompared && readFileSync(a.path).equals(readFileSync(b.path));

/** Separates copies of one image, as an export to two directories makes them. Images of one UID that differ are all kept. */
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
