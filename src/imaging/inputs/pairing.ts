import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import { labelOf, type NamedUnit, volumesOf } from '../../client/found-files.js';
import { counted, type Field, oneLine, quotePath } from '../../contract/index.js';
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

type Way = (groups: readonly (readonly NamedUnit[])[]) => string[][];

/** The ways to match files of two groups: each returns the keys of both groups, which are equal for files of the same case. */
const ways: readonly Way[] = [
  (groups) => groups.map((group) => group.map(({ name }) => foldedName(name))),
  (groups) => groups.map((group) => group.map(stemOf)),
  (groups) => groups.map((group) => group.map((unit) => withoutSuffix(stemOf(unit)))),
  (groups) => groups.map((group) => group.map(personOf)),
  (groups) => groups.map(withoutSharedEnd),
  foldersOf,
  ([first = [], other = []]) => [first.map(folderOf), other.map(stemOf)],
  ([first = [], other = []]) => [first.map(stemOf), other.map(folderOf)],
];

/**
 * A further way for the files of one job, which the user chose to go together: the parts by which the names of each group differ,
 * such as `01` and `02` of `sub-01_seg.nii.gz` and `sub-02_seg.nii.gz`.
 */
const byDifference: Way = (groups) =>
  // Single files do not differ from any other, and belong together: unlike in the other ways, an empty part is a key.
  groups.map((group) => differingParts(group.map(stemOf)).map((part) => `=${part}`));

const areDistinct = (keys: readonly string[]): boolean => new Set(keys).size === keys.length;

/**
 * Finds the partner of each volume in another group: the file with the same name, entities or folder. The way that pairs most
 * files wins.
 */
function partnersOf(
  first: readonly NamedUnit[],
  other: readonly NamedUnit[],
  isEach: boolean,
): Map<NamedUnit, NamedUnit> {
  let best = new Map<NamedUnit, NamedUnit>();
  const areApart = apartIn(first, other);
  for (const way of isEach ? ways : [byDifference, ...ways]) {
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

/** The units of these volumes, with their voxels, which several headers may share. */
const withHalves = (volumes: readonly NamedUnit[], units: readonly NamedUnit[]): NamedUnit[] => {
  const whole = new Map(volumesOf(units).map((volume) => [volume[0], volume]));
  return [...new Set(volumes.flatMap((unit) => whole.get(unit) ?? []))];
};

/** Maximum number of files listed. The user has to find them, so a few examples would not do. */
const maxNamed = 30;

function listOf(units: readonly NamedUnit[]): string {
  const named = units.slice(0, maxNamed).map((unit) => quotePath(unit.path));
  const more = units.length > maxNamed ? ` and ${units.length - maxNamed} more` : '';
  return oneLine(named.join(', ')) + more;
}

/** The sentences about the files that have no partner: the cases that lack a file in a group, and the files of no case. */
function lackingIn(
  group: string,
  cases: readonly NamedUnit[],
  volumes: readonly NamedUnit[],
  partners: ReadonlyMap<NamedUnit, NamedUnit>,
): string[] {
  const used = new Set(partners.values());
  const without = cases.filter((unit) => !partners.has(unit));
  const unused = volumes.filter((unit) => !used.has(unit));
  const [has, belongs] = [without.length === 1 ? 'has' : 'have', unused.length === 1 ? 'belongs' : 'belong'];
  const lacking = `${without.length} of ${counted(cases.length, 'case')} ${has} no file in ${group}: ${listOf(without)}`;
  const left = `${counted(unused.length, 'file')} of ${group} ${belongs} to no case: ${listOf(unused)}`;
  return [...(without.length > 0 ? [lacking] : []), ...(unused.length > 0 ? [left] : [])];
}

/**
 * Pairs the files of all groups: by equal names, entities or folders; by order if these do not match and the user typed every file
 * of both groups. Only that order pairs files of different subjects or sessions. Apps treat files at the same position in all
 * groups as one case: channels, predictions, ground truth or masks (docs/apps.md).
 * @param typed the paths that were typed in full
 * @param isEach whether each case is a job of its own. A single file of an optional group, such as one mask, then belongs to every
 *   case; in one job, any single file does.
 * @param skipsIncomplete whether cases that lack a file of a group are left out, if each is a job of its own
 * @throws UsageError that names the cases that lack a file, and if no case is complete
 */
export function pairGroups(
  groups: readonly Group[],
  typed: ReadonlySet<string>,
  isEach: boolean,
  skipsIncomplete: boolean,
): Paired {
  const [first, ...others] = groups;
  if (!first) return { groups: [], pairings: [], incomplete: [], omitted: [] };
  const cases = withoutHalves(first.units);
  const pairings: Pairing[] = [];
  const lacking: string[] = [];
  const isMissing = new Set<NamedUnit>();
  const partners = others.map(({ field, number, units }) => {
    const volumes = withoutHalves(units);
    const isAsMany = cases.length === volumes.length;
    const isForAll = isEach
      ? volumes.length === 1 && !field.required
      : !isAsMany && Math.min(cases.length, volumes.length) < 2;
    if (isForAll) return null;
    const byName = partnersOf(cases, volumes, isEach);
    const ordered = cases.flatMap((unit) => byName.get(unit) ?? []);
    const report = (by: Pairing['by'], other: readonly NamedUnit[]) =>
      pairings.push({ by, groups: [cases.map((unit) => unit.path), other.map((unit) => unit.path)] });
    const areTyped = [...cases, ...volumes].every((unit) => typed.has(unit.path));
    const isMoved = ordered.some((unit, at) => unit !== volumes[at]);
    // Nobody compares a file with itself on purpose, so the order as typed is intended.
    const isCrossed =
      areTyped &&
      isMoved &&
      cases.some((unit) => path.resolve(unit.path) === path.resolve(byName.get(unit)?.path ?? ''));
    if (isAsMany && ordered.length === cases.length && !isCrossed) {
      if (isMoved) report('name', ordered);
      return byName;
    }
    if (areTyped && (isAsMany || !isEach)) {
      if (cases.length > 1) report(isAsMany ? 'order' : 'count', volumes);
      return isAsMany ? new Map(cases.map((unit, at) => [unit, volumes[at] as NamedUnit])) : null;
    }
    const group = field === first.field ? `group ${number} of --${field.name}` : `--${field.name}`;
    for (const unit of cases) if (!byName.has(unit)) isMissing.add(unit);
    lacking.push(...lackingIn(group, cases, volumes, byName));
    return byName;
  });
  const complete = cases.filter((unit) => !isMissing.has(unit));
  if (lacking.length > 0 && !(isEach && skipsIncomplete))
    throw new UsageError(
      `${lacking.join('; ')}; give the files of a case the same names, add what is missing, ` +
        (isEach
          ? 'or leave these out with --skip-incomplete'
          : 'leave these out, or name all files in the order in which they belong together'),
    );
  if (lacking.length > 0 && complete.length === 0)
    throw new UsageError(`No case has a file in each group: ${lacking.join('; ')}`);
  const kept = others.map(({ units }, at) => {
    const partner = partners[at];
    const own = partner && complete.flatMap((unit) => partner.get(unit) ?? []);
    return own ? withHalves(own, units) : units;
  });
  return {
    groups: [withHalves(complete, first.units), ...kept],
    pairings,
    incomplete: lacking,
    omitted: [...isMissing],
  };
}
