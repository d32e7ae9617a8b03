import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import { quotePath } from '../../contract/index.js';
import { foldedName, freeName, windowsName } from '../../files/index.js';
import { someOf } from './entries.js';
import { type FoundFiles, type NamedUnit, wantedPath } from './find-files.js';
import { withoutVolumeEnding } from './formats.js';
import { namesOf } from './names.js';
import { isPlaceholder } from './placeholders.js';
import { labelOf } from './selection.js';

/** One case of several: a volume, with the files of the other groups that belong to it. */
export interface FoundCase {
  /** Distinguishes it from the others, and can be the name of a directory: `sub-01_ses-1`. */
  readonly name: string;
  /** The labels of `sub-` and `ses-` in the paths of its files, as in BIDS; null without one. */
  readonly subject: string | null;
  readonly session: string | null;
  /** What is sent of it alone. */
  readonly files: FoundFiles;
  /** Why it cannot be sent, in a sentence that names the file; null if it can. */
  readonly fault: string | null;
}

/** A volume of a group: one unit, or a header and the files with its voxels. */
export type Volume = readonly NamedUnit[];

/** The volumes of a group, in its order. */
export function volumesOf(units: readonly NamedUnit[]): Volume[] {
  const halves = new Map<string, NamedUnit[]>();
  for (const unit of units) {
    for (const header of unit.headers) halves.set(header, [...(halves.get(header) ?? []), unit]);
  }
  return units.filter(({ isHalf }) => !isHalf).map((unit) => [unit, ...(halves.get(unit.path) ?? [])]);
}

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

/** What is told once about all cases. */
const nothingBeside = {
  incomplete: [],
  ...{ skipped: [], copies: [], strays: [], followed: [] },
  ...{ objects: [], unknown: [], headless: [], pairings: [], refused: [] },
};

/**
 * Divides what was found into cases: each volume of the first group, with the one of each other group that is paired with it. A
 * single file of a group that may be left out, such as one mask, belongs to every case.
 * @param found with `isEach`
 * @throws UsageError if the groups have different numbers of volumes
 */
export function divideIntoCases(found: FoundFiles): FoundCase[] {
  const fields = found.volumes.map(({ field, groups }) => ({ field, groups: groups.map(volumesOf) }));
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
    fault: faultOf(volumes.flatMap(({ groups }) => groups.flat())),
    files: { ...nothingBeside, volumes, dataSet: null },
  }));
}

/** The files of a unit, by their names inside it; the name of a single file is the unit's own. */
export function filesOfUnit(
  unit: NamedUnit,
): readonly { readonly name: string; readonly path: string; readonly size: number | undefined }[] {
  if (unit.kind === 'file') return [{ name: unit.name, path: unit.path, size: unit.size }];
  return unit.files
    .filter(({ name }) => !name.endsWith('/'))
    .map(({ name, path: file, size }) => ({ name: path.posix.join(unit.name, name), path: file, size }));
}

/** Whether a program has not fetched the content of one of the files: they are what they were, as far as is known. */
export const hasPlaceholder = ({ volumes }: FoundFiles): boolean =>
  volumes.some(({ groups }) =>
    groups
      .flat()
      .flatMap(filesOfUnit)
      .some((file) => isPlaceholder(file.path)),
  );
