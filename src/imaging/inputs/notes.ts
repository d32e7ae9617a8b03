import { contradictorySides } from '@remote-app/volumes/headers';
import type { FoundFiles, NamedUnit } from '../../client/found-files.js';
import { oneLine, quotePath, someOf } from '../../contract/index.js';
import { groupBy, plainName } from './names.js';
import type { Pairing } from './pairing.js';
import { countSlices } from './recognise.js';
import { describeSeries } from './series.js';

function pairingNote({ by, groups: [first, second] }: Pairing): string {
  const why = {
    name: 'Files are paired by name, because the groups are in different orders',
    order: 'Files are paired by order, because their names do not match',
    count: `The groups have ${first.length} and ${second.length} files, which are paired by order`,
  }[by];
  const pairs = first.slice(0, second.length).map((each, at) => `${each} with ${second[at]}`);
  return `${why}: ${someOf(pairs)}`;
}

/** Maximum number of series, and of renamed files, that are listed. */
const [maxSeries, maxRenamed] = [20, 5];

/** Describes the series if there are several, and adds remarks for the user. */
function seriesNotes(units: readonly NamedUnit[], isListed: boolean): string[] {
  const known = units.flatMap((unit) =>
    unit.kind !== 'store' && unit.series ? [{ ...unit.series, name: unit.name }] : [],
  );
  const notes: string[] = [];
  if (known.length > 1 && !isListed) {
    notes.push(
      `${known.length} DICOM series are sent, each as a case; --series chooses some by number or description`,
      ...known.slice(0, maxSeries).map((each) => oneLine(`  ${describeSeries(each)} -> ${each.name}`)),
    );
    if (known.length > maxSeries)
      notes.push(`  and ${known.length - maxSeries} more; 'remote-app inputs' lists them all`);
  }
  const remarks = known.flatMap((each) =>
    each.remarks.map((remark) => oneLine(`Series ${describeSeries(each)} ${remark}`)),
  );
  const single = known.filter(({ images, isFile }) => images === 1 && !isFile);
  const alike = groupBy(single, ({ path, number, description, modality, size, plane }) =>
    JSON.stringify([path, number, description, modality, size, plane]),
  );
  const apart = alike.flatMap(([first, ...others]) => {
    // Two may be localisers.
    if (!first || others.length < 2) return [];
    const count = others.length + 1;
    return `${count} images in ${quotePath(first.path)} look like the slices of one volume, but each has a SeriesInstanceUID of its own: they are sent as ${count} cases. If they are one volume, give all the same UID, or convert them to NIfTI`;
  });
  return [...notes, ...remarks, ...apart];
}

/** Counts objects by kind: `1 RTDOSE, 2 RTSTRUCT`. */
function kindsOf(objects: FoundFiles['objects']): string {
  const counts = new Map<string, number>();
  for (const { modality } of objects) counts.set(modality, (counts.get(modality) ?? 0) + 1);
  return [...counts].map(([modality, count]) => `${count} ${modality}`).join(', ');
}

/** What was found besides the volumes. */
export interface Besides extends Pick<FoundFiles, 'skipped' | 'copies' | 'strays' | 'followed' | 'objects'> {
  /** Directories whose files are all sent because none has a known format. */
  readonly unknown: readonly string[];
  /** Directories that were searched before by another path. */
  readonly repeated: readonly string[];
  /** Files that are sent although their header is missing. */
  readonly headless: readonly string[];
  /** Which cases are left out because they lack a file of a group, in sentences. */
  readonly incomplete: readonly string[];
  /** Groups whose pairing is reported to the person. */
  readonly pairings: readonly Pairing[];
}

function* notesBesides(besides: Besides): Generator<string> {
  const { skipped, copies, repeated, strays, followed, objects, unknown, headless, incomplete, pairings } =
    besides;
  if (skipped.length > 0) {
    const [what, them] =
      skipped.length === 1
        ? ['1 file that is not a volume was', 'it']
        : [`${skipped.length} files that are not volumes were`, 'them'];
    yield `${what} not sent (${someOf(skipped)}); --all-files sends ${them}`;
  }
  if (copies.length > 0) {
    const what =
      copies.length === 1
        ? '1 identical copy of an image was'
        : `${copies.length} identical copies of images were`;
    yield `${what} not sent (${someOf(copies)})`;
  }
  if (repeated.length > 0)
    yield `Links lead again to directories that were searched already, and their contents are sent once: ${someOf(repeated)}`;
  if (strays.length > 0)
    yield `Not part of their Zarr store, and not sent: ${someOf(strays.map((each) => quotePath(each)))}`;
  if (followed.length > 0) {
    const links = followed.map(({ path, target }) => `${path} -> ${target}`);
    const [what, are] = links.length === 1 ? ['1 link leads', 'is'] : [`${links.length} links lead`, 'are'];
    yield `${what} out of what was named, to volumes, and ${are} followed: ${someOf(links)}`;
  }
  if (objects.length > 0) {
    const paths = someOf(objects.map(({ path }) => path));
    yield `DICOM objects without an image were not sent: ${kindsOf(objects)} (${paths}); name a file to send it`;
  }
  if (unknown.length > 0)
    yield `No file in ${someOf(unknown)} has a format of volumes that is known: they are sent as they are`;
  if (headless.length > 0)
    yield `Sent without a header, because there is none of the same name: ${someOf(headless)}`;
  for (const sentence of incomplete) yield `Left out: ${sentence}`;
  for (const pairing of pairings) yield pairingNote(pairing);
}

/**
 * Notes on what is not sent, which files belong together, and which are renamed.
 * @param isListed whether a table shows the volumes, so that they need not be listed here
 */
export function notesOf(units: readonly NamedUnit[], isListed: boolean, besides?: Besides): string[] {
  const notes = [...seriesNotes(units, isListed), ...(besides ? notesBesides(besides) : [])];
  const contradictory = units.flatMap((unit) =>
    unit.kind === 'file' && unit.remarks?.includes(contradictorySides) ? unit.path : [],
  );
  if (contradictory.length > 0)
    notes.push(
      `Headers that contradict each other in left and right (sform and qform): ${someOf(contradictory)}; programs show these mirrored or not, so check the side of what comes back`,
    );
  const named = units.flatMap((unit) => (unit.kind === 'file' && !unit.series ? unit.path : []));
  const slices = countSlices(named);
  if (slices > 1) {
    const count = `${slices} DICOM files are sent as ${slices} volumes`;
    notes.push(`${count}; name their directory to send them as one series`);
  }
  const renamed = isListed
    ? []
    : units.filter((unit) => unit.kind !== 'series' && unit.name !== plainName(unit.path));
  notes.push(...renamed.slice(0, maxRenamed).map(({ path, name }) => oneLine(`${path} -> ${name}`)));
  if (renamed.length > maxRenamed)
    notes.push(`${renamed.length - maxRenamed} more are renamed in the same way; --json lists them all`);
  return notes;
}
