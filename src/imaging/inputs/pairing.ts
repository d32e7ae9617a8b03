import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import { labelOf, type NamedUnit } from '../../client/found-files.js';
import { counted, type Field, oneLine, quotePath, someOf } from '../../contract/index.js';
import { differingParts, foldedName } from '../../files/index.js';
import { withoutVolumeEnding } from './formats.js';
import { commonLength } from './names.js';

/** A group of files, with its field and its number within the field, counted from 1. */
export interface Group {
  readonly field: Field;
  readonly number: number;
  readonly units: readonly NamedUnit[];
}

/** How two groups belong together, if that is not obvious. */
export interface Pairing {
  /**
   * `name`: the second group was put into the order of the first. `order`: the names do not say which files belong together.
   * `count`: the groups have different numbers of files.
   */
  readonly by: 'name' | 'order' | 'count';
  /** Paths of the files of both groups; files at the same position form a pair. */
  readonly groups: readonly [readonly string[], readonly string[]];
}

/** The groups of a submission, in which files at the same position belong together. */
export interface Paired {
  readonly groups: readonly (readonly NamedUnit[])[];
  /** The pairings that are reported to the user. */
  readonly pairings: readonly Pairing[];
  /** Sentences that say what the omitted cases lack. */
  readonly incomplete: readonly string[];
  /** The files of the omitted cases in the first group. */
  readonly omitted: readonly NamedUnit[];
}

/** The volumes of a group: a header stands for its voxels. */
const withoutHalves = (units: readonly NamedUnit[]): NamedUnit[] => units.filter(({ isHalf }) => !isHalf);

const stemOf = ({ name }: NamedUnit): string => foldedName(withoutVolumeEnding(name));

/**
 * The parts by which the names of one group differ: without the volume extension, and without the start and end that all share.
 * `01` and `02` of `sub-01_seg.nii.gz` and `sub-02_seg.nii.gz`.
 */
const keysOf = (units: readonly NamedUnit[]): string[] => differingParts(units.map(stemOf));

/** A group in the order of another group's keys; null if their keys differ or are not unique. */
function inOrderOf<T>(wanted: readonly string[], group: readonly T[], keys: readonly string[]): T[] | null {
  if (new Set(wanted).size < wanted.length) return null;
  const byKey = new Map(group.map((file, at) => [keys[at], file]));
  const ordered = wanted.flatMap((key) => byKey.get(key) ?? []);
  return ordered.length === group.length ? ordered : null;
}

/** Reorders a group to match the first, if the names are unambiguous. */
function pair(firstUnits: readonly NamedUnit[], units: readonly NamedUnit[]) {
  const first = withoutHalves(firstUnits);
  const group = withoutHalves(units);
  const asGiven = (by: Pairing['by'] | null) => ({ units, pairing: by && pairingOf(by, first, group) });
  // One file, such as a mask, may apply to all.
  if (first.length < 2 || group.length < 2) return asGiven(null);
  if (first.length !== group.length) return asGiven('count');
  const wanted = keysOf(first);
  const keys = keysOf(group);
  if (wanted.every((key, at) => key === keys[at])) return asGiven(null);
  const ordered = inOrderOf(wanted, group, keys);
  // Nobody compares a file with itself on purpose, so the order as typed is intended.
  const isCrossed = ordered?.some(
    (file, at) => path.resolve(file.path) === path.resolve(first[at]?.path ?? ''),
  );
  if (!ordered || isCrossed) return asGiven('order');
  const halves = units.filter(({ isHalf }) => isHalf);
  return { units: [...ordered, ...halves], pairing: pairingOf('name', first, ordered) };
}

function pairingOf(by: Pairing['by'], first: readonly NamedUnit[], other: readonly NamedUnit[]): Pairing {
  return { by, groups: [first.map((unit) => unit.path), other.map((unit) => unit.path)] };
}

/**
 * Pairs the groups of one job. Apps treat files at the same position in all groups as one case: channels, predictions, ground
 * truth or masks (docs/apps.md).
 * @param typed the paths that were typed in full
 * @throws UsageError if it is unclear which files belong together
 */
export function pairGroups(groups: readonly Group[], typed: ReadonlySet<string>): Paired {
  const [first = [], ...others] = groups.map(({ units }) => units);
  const paired = others.map((units) => pair(first, units));
  const pairings = paired.flatMap(({ pairing }) => pairing ?? []);
  const doubtful = pairings.find(
    ({ by, groups }) => by !== 'name' && !groups.flat().every((each) => typed.has(each)),
  );
  if (doubtful) throw unpairable(doubtful, groups, typed);
  const ordered = [first, ...paired.map(({ units }) => units)];
  checkPersons(ordered, typed);
  return { groups: ordered, pairings, incomplete: [], omitted: [] };
}

/**
 * The error for groups whose files were found in directories and whose names do not show which belong together. Pairing them by
 * order could compare predictions with the ground truth of other cases. An order that the user typed is intended. Names the files
 * that lack a partner if others have one, and otherwise lists both groups.
 */
function unpairable(
  { by, groups: [first, second] }: Pairing,
  groups: readonly Group[],
  typed: ReadonlySet<string>,
): UsageError {
  const { groups: complete, lacking } = completeCases(groups, typed);
  if (complete[0]?.length && lacking.length > 0) return incompleteError(lacking, 'leave these out');
  const why =
    by === 'count'
      ? `they have ${first.length} and ${second.length} files`
      : 'their names do not say which files belong together';
  return new UsageError(
    `Two groups of files cannot be paired, since ${why}: ${someOf(first.map((each) => quotePath(each)))} with ` +
      `${someOf(second.map((each) => quotePath(each)))}; ` +
      'give the files of a case the same names in both, or name all files in the order in which they belong together',
  );
}

/** The error for incomplete cases. @param remedy how to leave them out, worded to end a sentence */
const incompleteError = (lacking: readonly string[], remedy: string): UsageError =>
  new UsageError(
    `${lacking.join('; ')}; give the files of a case the same names, add what is missing, or ${remedy}`,
  );

/**
 * @throws UsageError for files at the same position in two groups that belong to different people or sessions, unless both were
 *   typed
 */
function checkPersons(groups: readonly (readonly NamedUnit[])[], typed: ReadonlySet<string>): void {
  const [first = [], ...others] = groups.map(withoutHalves);
  for (const group of others.filter(({ length }) => length === first.length)) {
    const areApart = apartIn(first, group);
    for (const [at, unit] of first.entries()) {
      const other = group[at];
      if (!other || !areApart(unit, other) || (typed.has(unit.path) && typed.has(other.path))) continue;
      throw new UsageError(
        `${quotePath(unit.path)} and ${quotePath(other.path)} are of different subjects, sessions or folders, and would be ` +
          'one case; name both files, if they belong together',
      );
    }
  }
}

/**
 * The test for files of two groups that are of different subjects or sessions, as far as their paths say. If both groups have one
 * file in each of the same folders, these are such a word of the paths as well.
 */
function apartIn(first: readonly NamedUnit[], other: readonly NamedUnit[]) {
  const [one = [], two = []] = [first, other].map((group) => foldersOf([group])[0]);
  const isByFolder = areDistinct(one) && one.toSorted().join('\0') === two.toSorted().join('\0');
  const folders = new Map([...first, ...other].map((unit, at) => [unit, [...one, ...two][at]]));
  return (a: NamedUnit, b: NamedUnit): boolean =>
    (isByFolder && folders.get(a) !== folders.get(b)) ||
    ['sub', 'ses'].some((entity) => {
      const labels = [labelOf(a.path, entity), labelOf(b.path, entity)];
      return !labels.includes(null) && labels[0] !== labels[1];
    });
}

/** The name of a scan without its channel number (nnU-Net) or suffix (BIDS): `sub-01` of `sub-01_T1w`. */
export const withoutSuffix = (stem: string): string => stem.replace(/_(\d{4}|[a-z][a-z0-9]*)$/, '');

/** The directories of files, without the parents that all files of both groups share. */
function foldersOf(groups: readonly (readonly NamedUnit[])[]): string[][] {
  const lists = groups.map((group) =>
    group.map((unit) => path.dirname(path.resolve(unit.path)).split(path.sep)),
  );
  const shared = commonLength(lists.flat());
  return lists.map((group) => group.map((list) => list.slice(shared).join('/')));
}

/** Names without the words that the whole group ends with: `A_t1` of `A_t1_mask`, if all are masks. */
function withoutSharedEnd(units: readonly NamedUnit[]): string[] {
  const words = units.map((unit) => stemOf(unit).split(/[_\-. ]/));
  const shared = commonLength(words.map((each) => each.toReversed()));
  const isOnly = units.length < 2;
  return words.map((each) => each.slice(0, isOnly ? undefined : each.length - shared).join('_'));
}

const folderOf = (unit: NamedUnit): string =>
  foldedName(path.basename(path.dirname(path.resolve(unit.path))));

/** The subject and session labels of BIDS; empty without a subject. */
function personOf(unit: NamedUnit): string {
  const [subject, session] = ['sub', 'ses'].map((entity) => labelOf(unit.path, entity));
  return subject === null ? '' : `${subject} ${session ?? ''}`;
}

/** The ways to match files of two groups: each returns the keys of both groups, which are equal for files of the same case. */
const ways: readonly ((groups: readonly (readonly NamedUnit[])[]) => string[][])[] = [
  (groups) => groups.map((group) => group.map(stemOf)),
  (groups) => groups.map((group) => group.map((unit) => withoutSuffix(stemOf(unit)))),
  (groups) => groups.map((group) => group.map(personOf)),
  (groups) => groups.map(withoutSharedEnd),
  foldersOf,
  ([first = [], other = []]) => [first.map(folderOf), other.map(stemOf)],
  ([first = [], other = []]) => [first.map(stemOf), other.map(folderOf)],
];

const areDistinct = (keys: readonly string[]): boolean => new Set(keys).size === keys.length;

/**
 * Finds the partner of each volume in another group: the file with the same name, entities or folder. The way that pairs most
 * files wins.
 */
function partnersOf(first: readonly NamedUnit[], other: readonly NamedUnit[]): Map<NamedUnit, NamedUnit> {
  let best = new Map<NamedUnit, NamedUnit>();
  const areApart = apartIn(first, other);
  for (const way of ways) {
    const [one = [], two = []] = way([first, other]);
    if (!areDistinct(one) || !areDistinct(two)) continue;
    const byKey = new Map(other.map((unit, at) => [two[at], unit]));
    const partners = new Map(
      first.flatMap((unit, at) => {
        const partner = one[at] === '' ? undefined : byKey.get(one[at]);
        return partner && !areApart(unit, partner) ? [[unit, partner] as const] : [];
      }),
    );
    if (partners.size > best.size) best = partners;
  }
  return best;
}

/** The units of these volumes, with their voxels. */
const withHalves = (volumes: readonly NamedUnit[], units: readonly NamedUnit[]): NamedUnit[] => {
  const paths = new Set(volumes.map((each) => each.path));
  const halves = units.filter((each) => each.isHalf && each.headers.some((header) => paths.has(header)));
  return [...volumes, ...halves];
};

/** Maximum number of files listed. The user has to find them, so a few examples would not do. */
const maxNamed = 30;

function listOf(units: readonly NamedUnit[]): string {
  const named = units.slice(0, maxNamed).map((unit) => quotePath(unit.path));
  const more = units.length > maxNamed ? ` and ${units.length - maxNamed} more` : '';
  return oneLine(named.join(', ')) + more;
}

/**
 * Pairs the files of all groups: by equal names, entities or folders; by order if the user typed every file of both groups. Only
 * that order pairs files of different subjects or sessions. A single file of an optional group, such as one mask, belongs to
 * every case.
 * @param typed the paths that were typed in full
 * @returns the groups without incomplete cases, in the order of the first group; the incomplete cases; and what they lack
 */
function completeCases(
  groups: readonly Group[],
  typed: ReadonlySet<string>,
): Pick<Paired, 'groups' | 'omitted'> & { readonly lacking: readonly string[] } {
  const [first, ...others] = groups;
  if (!first) return { groups: [], omitted: [], lacking: [] };
  const cases = withoutHalves(first.units);
  const lacking: string[] = [];
  const isMissing = new Set<NamedUnit>();
  const partners = others.map(({ field, number, units }) => {
    const volumes = withoutHalves(units);
    if (volumes.length === 1 && !field.required) return null;
    if (cases.length === volumes.length && [...cases, ...volumes].every((each) => typed.has(each.path)))
      return new Map(cases.flatMap((unit, at) => (volumes[at] ? [[unit, volumes[at]] as const] : [])));
    const partner = partnersOf(cases, volumes);
    const group = field === first.field ? `group ${number} of --${field.name}` : `--${field.name}`;
    const without = cases.filter((unit) => !partner.has(unit));
    const used = new Set(partner.values());
    const unused = volumes.filter((unit) => !used.has(unit));
    for (const unit of without) isMissing.add(unit);
    if (without.length > 0)
      lacking.push(
        `${without.length} of ${counted(cases.length, 'case')} ${without.length === 1 ? 'has' : 'have'} no file in ${group}: ${listOf(without)}`,
      );
    if (unused.length > 0)
      lacking.push(
        `${counted(unused.length, 'file')} of ${group} ${unused.length === 1 ? 'belongs' : 'belong'} to no case: ${listOf(unused)}`,
      );
    return partner;
  });
  const complete = cases.filter((unit) => !isMissing.has(unit));
  const kept = others.map(({ units }, at) => {
    const partner = partners[at];
    const own = partner && complete.flatMap((unit) => partner.get(unit) ?? []);
    return own ? withHalves(own, units) : units;
  });
  return { groups: [withHalves(complete, first.units), ...kept], omitted: [...isMissing], lacking };
}

/**
 * Pairs the groups of cases that are sent as separate jobs.
 * @param skipsIncomplete whether cases that lack a file of a group are left out
 * @throws UsageError that names the cases that lack a file, and if no case is complete
 */
export function pairCases(
  groups: readonly Group[],
  typed: ReadonlySet<string>,
  skipsIncomplete: boolean,
): Paired {
  const { groups: complete, omitted, lacking } = completeCases(groups, typed);
  if (!skipsIncomplete && lacking.length > 0)
    throw incompleteError(lacking, 'leave these out with --skip-incomplete');
  if (complete[0]?.length === 0 && lacking.length > 0)
    throw new UsageError(`No case has a file in each group: ${lacking.join('; ')}`);
  return { groups: complete, pairings: [], incomplete: lacking, omitted };
}
