import { oneLine, quotePath } from '../../contract/index.js';
import {
  countSlices,
  describeSeries,
  type FoundFiles,
  mostShown,
  type NamedUnit,
  type Pairing,
  plainName,
  someOf,
} from '../../imaging/inputs/index.js';
import type { Reporter } from '../reporter.js';

function pairingNote({ by, groups: [first, second], pairs }: Pairing): string {
  const why = {
    name: 'Files are paired by name, because the groups are in different orders',
    order: 'Files are paired by order, because their names do not match',
    count: `The groups have ${first.length} and ${second.length} files, which are paired by order`,
  }[by];
  return `${why}: ${someOf(pairs.map((pair) => pair.join(' with ')))}`;
}

/** Most series that are listed for a person. */
const maxSeries = 20;

/** Describes the series, if there are several, and anything a person should know about them. */
function tellSeries(units: readonly NamedUnit[], reporter: Reporter, isListed: boolean): void {
  const known = units.flatMap((unit) =>
    unit.kind !== 'store' && unit.series ? [{ ...unit.series, name: unit.name }] : [],
  );
  if (known.length > 1 && !isListed) {
    reporter.note(
      `${known.length} DICOM series are sent, each as a case; --series chooses some by number or description`,
    );
    for (const each of known.slice(0, maxSeries))
      reporter.note(oneLine(`  ${describeSeries(each)} -> ${each.name}`));
    if (known.length > maxSeries) {
      reporter.note(`  and ${known.length - maxSeries} more; 'remote-app inputs' lists them all`);
    }
  }
  for (const each of known) {
    for (const remark of each.remarks) reporter.note(oneLine(`Series ${describeSeries(each)} ${remark}`));
  }
}

/** The kinds of objects with their numbers: `1 RTDOSE, 2 RTSTRUCT`. */
function kindsOf(objects: FoundFiles['objects']): string {
  const counts = new Map<string, number>();
  for (const { modality } of objects) counts.set(modality, (counts.get(modality) ?? 0) + 1);
  return [...counts].map(([modality, count]) => `${count} ${modality}`).join(', ');
}

/**
 * Says which files are not sent, which belong together, and which are sent under another name.
 * @param isListed whether the volumes are shown in a table already
 */
export function tellSending(
  {
    volumes,
    skipped,
    copies,
    strays,
    followed,
    objects,
    unknown,
    headless,
    pairings,
    incomplete,
  }: FoundFiles,
  reporter: Reporter,
  { isListed = false } = {},
): void {
  const units = volumes.flatMap(({ groups }) => groups.flat());
  tellSeries(units, reporter, isListed);
  if (skipped.length > 0) {
    const [what, them] =
      skipped.length === 1
        ? ['1 file that is not a volume was', 'it']
        : [`${skipped.length} files that are not volumes were`, 'them'];
    reporter.note(`${what} not sent (${someOf(skipped)}); --all-files sends ${them}`);
  }
  if (copies.length > 0) {
    const what =
      copies.length === 1
        ? '1 identical copy of an image was'
        : `${copies.length} identical copies of images were`;
    reporter.note(`${what} not sent (${someOf(copies)})`);
  }
  if (strays.length > 0)
    reporter.note(
      `Not part of their Zarr store, and not sent: ${someOf(strays.map((each) => quotePath(each)))}`,
    );
  if (followed.length > 0) {
    const links = followed.map(({ path, target }) => `${path} -> ${target}`);
    const what = links.length === 1 ? '1 link leads' : `${links.length} links lead`;
    reporter.note(
      `${what} out of what was named, to volumes, and ${links.length === 1 ? 'is' : 'are'} followed: ${someOf(links)}`,
    );
  }
  if (objects.length > 0) {
    const paths = objects.map(({ path }) => path);
    reporter.note(
      `DICOM objects without an image were not sent: ${kindsOf(objects)} (${someOf(paths)}); name a file to send it`,
    );
  }
  if (unknown.length > 0) {
    reporter.note(
      `No file in ${someOf(unknown)} has a format of volumes that is known: they are sent as they are`,
    );
  }
  if (headless.length > 0) {
    reporter.note(`Sent without a header, because there is none of the same name: ${someOf(headless)}`);
  }
  for (const sentence of incomplete) reporter.note(`Left out: ${sentence}`);
  for (const pairing of pairings) reporter.note(pairingNote(pairing));
  const named = units.flatMap((unit) => (unit.kind === 'file' && !unit.series ? unit.path : []));
  const slices = countSlices(named);
  if (slices > 1) {
    const count = `${slices} DICOM files are sent as ${slices} volumes`;
    reporter.note(`${count}; name their directory to send them as one series`);
  }
  const renamed = isListed
    ? []
    : units.filter((unit) => unit.kind !== 'series' && unit.name !== plainName(unit.path));
  for (const { path, name } of renamed.slice(0, mostShown)) reporter.note(oneLine(`${path} -> ${name}`));
  if (renamed.length > mostShown) {
    reporter.note(`${renamed.length - mostShown} more are renamed in the same way; --json lists them all`);
  }
}
