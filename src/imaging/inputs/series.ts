import path from 'node:path';
import {
  type DicomHeader,
  dot,
  isSegmentation,
  normalOf,
  stackOf,
  usualStep,
} from '@remote-app/volumes/headers';
import { numberAndDescription } from '../../client/case-names.js';
import type { Series } from '../../client/found-files.js';
import { counted } from '../../contract/index.js';
import { byName } from '../../files/index.js';
import { commonLength, groupBy, namesOf } from './names.js';

/** A DICOM file in a directory. The header is null if it cannot be read. */
export interface DicomFile {
  readonly path: string;
  readonly size: number;
  readonly header: DicomHeader | null;
}

/** Modalities whose images stand alone, and are not slices of a volume. */
const projections = /^(CR|DX|MG|IO|PX|RF|XA|US|OP|ES|XC|GM|SM|DG)$/;

/** Whether a file is a case of its own: it has several frames, or is a projection or a segmentation. */
const isCaseOfItsOwn = ({ header }: DicomFile): boolean =>
  header !== null && (header.frames > 1 || projections.test(header.modality ?? '') || isSegmentation(header));

/** Minimum component of a unit vector along an axis for a plane to be named after that axis. */
const nearlyStraight = 0.9;

/** The anatomical plane of images of this orientation. */
function planeOf(header: DicomHeader | undefined): Series['plane'] {
  if (!header?.orientation) return null;
  const normal = normalOf(header.orientation).map(Math.abs);
  const max = Math.max(...normal);
  if (max < nearlyStraight) return 'oblique';
  return (['sagittal', 'coronal', 'axial'] as const)[normal.indexOf(max)] ?? null;
}

/** Maximum difference in a direction component among images of one orientation. */
const tolerance = 0.01;

/** The images in the order of their positions; null unless all have a position and the same orientation. */
function levelsOf(headers: readonly DicomHeader[]): ReturnType<typeof stackOf<DicomHeader>> | null {
  const same = headers[0]?.orientation;
  if (!same) return null;
  const isInPlace = ({ position, orientation }: DicomHeader) =>
    position !== null && orientation?.every((each, at) => Math.abs(each - (same[at] ?? 0)) < tolerance);
  const normal = normalOf(same);
  return headers.every(isInPlace) ? stackOf(headers, ({ position }) => dot(position ?? [], normal)) : null;
}

/** The indices of images, in slice order. */
function orderOf(files: readonly DicomFile[]): number[] {
  const places = new Map(files.map(({ header }, at) => [header, at]));
  const headers = files.flatMap(({ header }) => header ?? []);
  const levels = headers.length === files.length ? levelsOf(headers) : null;
  if (levels) return levels.flatMap(({ images }) => images.map((each) => places.get(each) ?? 0));
  const number = (at: number) => files[at]?.header?.instanceNumber ?? 0;
  return [...files.keys()].sort((a, b) => number(a) - number(b));
}

/** Maximum number of gaps listed. */
const maxGaps = 5;

const repeatedIn = (values: readonly unknown[]): number => values.length - new Set(values).size;

/** Remarks about a series: what its images have in common, gaps in even spacing, and several images at one position. */
function remarksOn(headers: readonly DicomHeader[]): string[] {
  const remarks: string[] = [];
  if (headers.length > 1 && headers[0]?.seriesUid === null)
    remarks.push(
      'has no SeriesInstanceUID; images of one directory were put together that say they belong to one series',
    );
  const repeated = repeatedIn(headers.flatMap(({ instanceUid }) => instanceUid ?? []));
  if (repeated > 0)
    remarks.push(
      `has ${counted(repeated, 'image')} with the SOPInstanceUID of another image, but another content`,
    );
  const levels = levelsOf(headers);
  if (!levels) return remarks;
  if (levels.length < headers.length) {
    const areNumbered = headers.every(({ instanceNumber }) => instanceNumber !== null);
    const isTwice =
      areNumbered &&
      levels.every(({ images }) => new Set(images.map((each) => each.instanceNumber)).size === 1);
    const why = isTwice
      ? 'with the same numbers: copies of each other, or two acquisitions'
      : 'such as echoes, b-values or two acquisitions';
    remarks.push(`has ${headers.length} images at ${counted(levels.length, 'position')}, ${why}`);
  }
  const steps = levels.slice(1).map(({ depth }, index) => depth - (levels[index]?.depth ?? 0));
  const usual = usualStep(steps);
  const missing = steps.map((step) => step / usual - 1);
  // With uneven spacing, as of the three images of a localiser, no slice can be said to be missing.
  const isEven = steps.length > 2 && missing.every((each) => Math.abs(each - Math.round(each)) < 0.2);
  const gaps = isEven ? missing.flatMap((each, index) => (Math.round(each) > 0 ? [index] : [])) : [];
  if (gaps.length > 0) {
    const count = gaps.reduce((sum, index) => sum + Math.round(missing[index] ?? 0), 0);
    const nameAt = (index: number) =>
      levels[index]?.images[0]?.instanceNumber ?? `${levels[index]?.depth.toFixed(1)} mm`;
    const between = gaps.slice(0, maxGaps).map((index) => `${nameAt(index)} and ${nameAt(index + 1)}`);
    const more = gaps.length > maxGaps ? `, and ${gaps.length - maxGaps} more gaps` : '';
    remarks.push(`lacks ${counted(count, 'slice')} of an even spacing, between ${between.join(', ')}${more}`);
  }
  return remarks;
}

/** The deepest directory that contains all paths. */
function commonDirectory(paths: readonly string[]): string {
  const lists = paths.map((each) => path.dirname(each).split(path.sep));
  const shared = lists[0]?.slice(0, commonLength(lists)) ?? [];
  return shared.join(path.sep) || (paths[0]?.startsWith(path.sep) ? path.sep : '.');
}

/** The most frequent value. */
function commonest<T>(values: readonly T[]): T | undefined {
  const counts = new Map<T, number>();
  for (const each of values) counts.set(each, (counts.get(each) ?? 0) + 1);
  return [...counts].reduce<[T, number] | undefined>((a, b) => (a && a[1] >= b[1] ? a : b), undefined)?.[0];
}

function seriesOf(files: readonly DicomFile[]): Omit<Series, 'person'> {
  const headers = files.flatMap(({ header }) => header ?? []);
  const [first] = headers;
  const paths = files.map((file) => file.path);
  const names = namesOf(paths);
  const depth = headers.reduce((sum, { frames }) => sum + frames, 0);
  const size = [commonest(headers.map(({ columns }) => columns)), commonest(headers.map(({ rows }) => rows))];
  return {
    path: commonDirectory(paths),
    isFile: files.every(isCaseOfItsOwn),
    files: files.map((file, at) => ({ name: names[at] ?? '', path: file.path, size: file.size })),
    order: orderOf(files),
    number: first?.seriesNumber ?? null,
    description: first?.description ?? '',
    modality: first?.modality ?? '',
    patient: first?.patient ?? '',
    images: files.length,
    size: size.every((each) => typeof each === 'number') ? [...(size as number[]), depth] : [],
    plane: planeOf(first),
    remarks: remarksOn(headers),
  };
}

const directoryOf = (file: DicomFile): string => path.dirname(file.path);

/**
 * Splits files with one UID by directory if different images share a SOPInstanceUID, because the UID then identifies
 * nothing.
 */
function byDirectoryIfMixed(files: readonly DicomFile[]): readonly (readonly DicomFile[])[] {
  const directories = new Map<string, string>();
  const isMixed = files.some((file) => {
    const image = file.header?.instanceUid;
    if (!image) return false;
    const known = directories.get(image);
    directories.set(image, directoryOf(file));
    return known !== undefined && known !== directoryOf(file);
  });
  return isMixed ? groupBy(files, directoryOf) : [files];
}

/**
 * A key shared by all images of a series. Without a SeriesInstanceUID, it consists of all other attributes that a series shares.
 */
function keyOf(file: DicomFile): string {
  const { header } = file;
  if (isCaseOfItsOwn(file)) return file.path;
  if (!header || header.seriesUid !== null) return header?.seriesUid ?? directoryOf(file);
  const { patient, studyUid, seriesNumber, modality, description, rows, columns, orientation } = header;
  const directions = orientation?.map((each) => Math.round(each / tolerance));
  const shared = [patient, studyUid, seriesNumber, modality, description, rows, columns, directions];
  return JSON.stringify([directoryOf(file), ...shared]);
}

/**
 * Groups images into cases: series by SeriesInstanceUID; multi-frame files and projections on their own. Without a
 * SeriesInstanceUID, images in the same directory form a series if their patient, study, number and geometry agree. Images whose
 * header cannot be read are grouped by directory. Sorted by directory, then by series number.
 */
export function groupSeries(images: readonly DicomFile[]): Series[] {
  const grouped = groupBy(images, keyOf).flatMap(byDirectoryIfMixed);
  const found = grouped.map(seriesOf);
  const peopleIn = new Map<string, Set<string>>();
  for (const { path: directory, patient } of found)
    peopleIn.set(directory, (peopleIn.get(directory) ?? new Set()).add(patient));
  const series = found.map((each) => ({
    ...each,
    person: (peopleIn.get(each.path)?.size ?? 0) > 1 ? each.patient : '',
  }));
  return series.sort((a, b) =>
    a.path === b.path ? (a.number ?? 0) - (b.number ?? 0) : byName(a.path, b.path),
  );
}

/**
 * The name of a series: its directory, followed by number and description if the directory has several series.
 * @param isAlone whether the name of the directory is enough
 */
export function seriesName(series: Series, isAlone: boolean): string {
  const directory = path.basename(path.resolve(series.path));
  return isAlone ? directory : [directory, ...numberAndDescription(series)].join('_');
}

/** Describes a series to the user: `3 'T1 MPRAGE' (MR, 256 x 256 x 176, sagittal)`. */
export function describeSeries({ number, description, modality, size, images, plane }: Series): string {
  const what = [modality, size.length > 0 ? size.join(' x ') : counted(images, 'image'), plane];
  const name = [number, description === '' ? null : `'${description}'`].filter((each) => each !== null);
  return `${name.join(' ') || 'without a number'} (${what.filter(Boolean).join(', ')})`;
}

/**
 * Whether a pattern of `*` and `?` matches a text, ignoring case. Descriptions come from files, so no text may take long to
 * match.
 */
export function matches(pattern: string, text: string): boolean {
  const [wanted, given] = [[...pattern.toLowerCase()], [...text.toLowerCase()]];
  let [at, from, star, mark] = [0, 0, -1, 0];
  while (from < given.length) {
    if (wanted[at] === '*') [star, mark, at] = [at, from, at + 1];
    else if (at < wanted.length && (wanted[at] === '?' || wanted[at] === given[from]))
      [at, from] = [at + 1, from + 1];
    // Retry with the last star matching one more character.
    else if (star >= 0) [at, mark, from] = [star + 1, mark + 1, mark + 1];
    else return false;
  }
  return wanted.slice(at).every((each) => each === '*');
}

/**
 * Selects series by words: a number is a series number, anything else a pattern for the description.
 * @returns the selected series, and the words that select none
 */
export function selectSeries<T extends Pick<Series, 'number' | 'description'>>(
  series: readonly T[],
  words: readonly string[],
): { readonly chosen: readonly T[]; readonly unused: readonly string[] } {
  const isChosen = ({ number, description }: Pick<Series, 'number' | 'description'>, word: string) =>
    /^\d+$/.test(word)
      ? number === Number(word)
      : matches(word.normalize('NFC'), description.normalize('NFC'));
  return {
    chosen: series.filter((each) => words.some((word) => isChosen(each, word))),
    unused: words.filter((word) => !series.some((each) => isChosen(each, word))),
  };
}
