import { caseNameOf } from '../../client/case-names.js';
import { UsageError } from '../../client/errors.js';
import {
  type FoundCase,
  type FoundFiles,
  labelOf,
  type NamedUnit,
  type Series,
  type Volume,
  volumesOf,
} from '../../client/found-files.js';
import { quoteName, quotePath } from '../../contract/index.js';
import { foldedName } from '../../files/index.js';
import { namesOf, wantedPath } from './names.js';
import { notesOf } from './notes.js';

/** A volume with the names that its files get if they are sent without other cases. */
function renamed(volume: Volume): Volume {
  const names = namesOf(volume.map(wantedPath));
  return volume.map((unit, index) => ({ ...unit, name: names[index] ?? unit.name }));
}

/** The first fault of the files of a case. */
function faultOf(units: readonly NamedUnit[]): string | null {
  const [fault = null] = units.flatMap((unit) =>
    unit.fault === undefined ? [] : [`${quotePath(unit.path)} ${unit.fault}`],
  );
  return fault;
}

/** Explains why series of one directory would be the same case, and what to do. */
function sameSeries(name: string, directory: string, series: readonly Series[]): string {
  const what = `${series.length} series in ${quotePath(directory)} would be the case ${quoteName(name)}, since their number and description are the same`;
  return series.every(({ images }) => images === 1)
    ? `${what}. Each has one image: if these are the slices of one volume, give all the same SeriesInstanceUID, or convert them to NIfTI`
    : `${what}; move each into a directory of its own`;
}

/**
 * @throws UsageError for two volumes that would be the same case, and for a case whose result would lie inside that of another
 */
function checkNames(cases: readonly FoundCase[]): void {
  const unitOf = ({ files }: FoundCase) => files.volumes[0]?.groups[0]?.[0];
  const fileOf = (each: FoundCase) => quotePath(unitOf(each)?.path ?? '');
  const known = new Map<string, FoundCase>();
  for (const each of cases) {
    const other = known.get(foldedName(each.name));
    if (other) {
      const same = cases.filter(({ name }) => foldedName(name) === foldedName(each.name)).map(unitOf);
      const series = same.flatMap((unit) => (unit?.kind === 'series' ? unit.series : []));
      if (series.length > 1 && fileOf(other) === fileOf(each))
        throw new UsageError(sameSeries(each.name, unitOf(each)?.path ?? '', series));
      throw new UsageError(
        `${fileOf(other)} and ${fileOf(each)} would both be the case ${quoteName(each.name)}: name the directory above both, ` +
          'leave one out with --exclude, or rename it',
      );
    }
    known.set(foldedName(each.name), each);
  }
  for (const each of cases) {
    const parts = foldedName(each.name).split('/');
    const outer = parts.map((_, end) => known.get(parts.slice(0, end).join('/'))).find(Boolean);
    if (outer)
      throw new UsageError(
        `The result of ${fileOf(each)} would lie in that of ${fileOf(outer)}: rename the file or the directory, or send them with ` +
          'separate commands and -o',
      );
  }
}

const unitsOf = (volumes: FoundFiles['volumes']): NamedUnit[] =>
  volumes.flatMap(({ groups }) => groups.flat());

/** Empty values for what is reported once for all cases. */
const nothingBeside = {
  omitted: [],
  skipped: [],
  copies: [],
  strays: [],
  followed: [],
  objects: [],
  refused: [],
};

/**
 * Divides the files found into cases: each volume of the first group with its partner in every other group. A single file of an
 * optional group, such as one mask, belongs to every case.
 * @throws UsageError for cases whose names or results would be the same
 */
export function divideIntoCases(found: FoundFiles['volumes']): FoundCase[] {
  const fields = found.map(({ field, groups }) => ({ field, groups: groups.map(volumesOf) }));
  const first = fields[0]?.groups[0] ?? [];
  const volumeAt = (group: readonly Volume[], index: number): Volume =>
    renamed((group.length === first.length ? group[index] : group[0]) ?? []);
  const chosen = first.map((_, index) =>
    fields.map(({ field, groups }) => ({ field, groups: groups.map((group) => volumeAt(group, index)) })),
  );
  // A mask for all cases says nothing about one.
  const own = first.map((_, index) =>
    fields.flatMap(({ groups }) =>
      groups.filter((group) => group.length === first.length).map((group) => group[index] ?? []),
    ),
  );
  const labelIn = (index: number, entity: string) => {
    const labels = own[index]?.map(([unit]) => labelOf(unit?.path ?? '', entity));
    return labels?.find((label) => label !== null) ?? null;
  };
  const cases = chosen.map((volumes, index) => ({
    name: caseNameOf(first[index]?.[0] as NamedUnit),
    subject: labelIn(index, 'sub'),
    session: labelIn(index, 'ses'),
    fault: faultOf(unitsOf(volumes)),
    files: { ...nothingBeside, volumes, dataSet: null, cases: [], notes: notesOf(unitsOf(volumes), false) },
  }));
  checkNames(cases);
  return cases;
}
