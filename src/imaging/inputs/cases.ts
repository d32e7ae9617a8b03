import { UsageError } from '../../client/errors.js';
import {
  type FoundCase,
  type FoundFiles,
  filesOfUnit,
  labelOf,
  type NamedUnit,
  type Volume,
  volumesOf,
} from '../../client/found-files.js';
import { quotePath, someOf } from '../../contract/index.js';
import { foldedName, freeName, windowsName } from '../../files/index.js';
import { withoutVolumeEnding } from './formats.js';
import { namesOf, wantedPath } from './names.js';
import { notesOf } from './notes.js';
import { isPlaceholder } from './placeholders.js';

/** A volume under the names that it gets if it is sent alone, without other cases. */
function renamed(volume: Volume): Volume {
  const names = namesOf(volume.map(wantedPath));
  return volume.map((unit, index) => ({ ...unit, name: names[index] ?? unit.name }));
}

/** The first fault of the files of a case. */
function faultOf(units: readonly NamedUnit[]): string | null {
  const [fault = null] = units.flatMap((unit) =>
    unit.kind === 'file' && unit.fault !== undefined ? [`${quotePath(unit.path)} ${unit.fault}`] : [],
  );
  return fault;
}

const stemOf = ([first]: Volume): string => withoutVolumeEnding(first?.name ?? '');

/** What all texts begin with, up to the last separator: `sub-01_ses-1` of `sub-01_ses-1_T1w` and `sub-01_ses-1_FLAIR`. */
function sharedWords(texts: readonly string[]): string {
  const [first = '', ...others] = texts;
  if (others.every((text) => text === first)) return first;
  let end = 0;
  while (end < first.length && others.every((text) => text[end] === first[end])) end += 1;
  const isWhole = texts.every((text) => text.length === end || /[_.\-\s]/.test(text[end] ?? ''));
  const shared = first.slice(0, end);
  return (isWhole ? shared : shared.replace(/[^_.\-\s]*$/, '')).replace(/[_.\-\s]+$/, '');
}

const areDistinct = (names: readonly string[]): boolean =>
  names.every((name) => name !== '') && new Set(names.map(foldedName)).size === names.length;

/** A name that a directory can have on every system, and that is not hidden. */
const asDirectory = (name: string): string =>
  windowsName(name.replace(/^[.\-\s]+/, '').slice(0, 200)) || 'case';

/**
 * The names of cases: what their files share, and otherwise the name of the first, which has the parts of its path that differ
 * where the name alone is not enough.
 * @param cases the volumes of each, one of each group
 */
function caseNames(cases: readonly (readonly Volume[])[]): string[] {
  const shared = cases.map((volumes) => sharedWords(volumes.map(stemOf)));
  const wanted = areDistinct(shared) ? shared : cases.map(([first = []]) => stemOf(first));
  const counts = new Map<string, number>();
  const taken = new Set<string>();
  return wanted.map((name) => {
    const free = freeName(asDirectory(name), counts, (each) => taken.has(foldedName(each)));
    taken.add(foldedName(free));
    return free;
  });
}

/** @throws UsageError for a group that does not have one volume for each case */
function checkCount(group: readonly Volume[], first: readonly Volume[], flag: string): void {
  const pathsOf = (volumes: readonly Volume[]) =>
    someOf(volumes.map(([unit]) => quotePath(unit?.path ?? '')));
  throw new UsageError(
    `--each takes one file of each group for a case, and ${flag} has ${group.length} for ${first.length} cases: ` +
      `${pathsOf(group)} with ${pathsOf(first)}; give both groups the same number of files, and the files of a case the same names`,
  );
}

const unitsOf = (volumes: FoundFiles['volumes']): NamedUnit[] =>
  volumes.flatMap(({ groups }) => groups.flat());

/** What is reported once for all cases. */
const nothingBeside = { skipped: [], copies: [], strays: [], followed: [], objects: [], refused: [] };

/**
 * Divides what was found into cases: each volume of the first group, with the one of each other group that is paired with it. A
 * single file of a group that may be left out, such as one mask, belongs to every case.
 * @throws UsageError if the groups have different numbers of volumes
 */
export function divideIntoCases(found: FoundFiles['volumes']): FoundCase[] {
  const fields = found.map(({ field, groups }) => ({ field, groups: groups.map(volumesOf) }));
  const first = fields[0]?.groups[0] ?? [];
  for (const { field, groups } of fields) {
    for (const group of groups) {
      const isForAll = group.length === 1 && !field.required;
      if (group.length !== first.length && !isForAll) checkCount(group, first, `--${field.name}`);
    }
  }
  const volumeAt = (group: readonly Volume[], index: number): Volume =>
    renamed((group.length === first.length ? group[index] : group[0]) ?? []);
  const chosen = first.map((_, index) =>
    fields.map(({ field, groups }) => ({ field, groups: groups.map((group) => volumeAt(group, index)) })),
  );
  // A mask for all cases says nothing about one. The files keep the names here that distinguish them from those of other cases.
  const naming = first.map((_, index) =>
    fields.flatMap(({ groups }) =>
      groups.filter((group) => group.length === first.length).map((group) => group[index] ?? []),
    ),
  );
  const names = caseNames(naming);
  const labelIn = (index: number, entity: string) => {
    const labels = naming[index]?.map(([unit]) => labelOf(unit?.path ?? '', entity));
    return labels?.find((label) => label !== null) ?? null;
  };
  return chosen.map((volumes, index) => ({
    name: names[index] ?? '',
    subject: labelIn(index, 'sub'),
    session: labelIn(index, 'ses'),
    fault: faultOf(unitsOf(volumes)),
    files: { ...nothingBeside, volumes, dataSet: null, cases: [], notes: notesOf(unitsOf(volumes), false) },
    isAway: unitsOf(volumes)
      .flatMap(filesOfUnit)
      .some((file) => isPlaceholder(file.path)),
  }));
}
