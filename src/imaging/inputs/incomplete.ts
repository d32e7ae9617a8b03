import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import { labelOf } from '../../client/found-files.js';
import { counted, type Field, oneLine, quotePath } from '../../contract/index.js';
import { foldedName } from '../../files/index.js';
import { withoutVolumeEnding } from './formats.js';
import { commonLength, withoutHalves } from './names.js';

/** What of a unit says to which case it belongs. */
interface Pairable {
  readonly path: string;
  readonly name: string;
  /** Whether it has the voxels of another file of its group, and the paths of these. */
  readonly isHalf: boolean;
  readonly headers: readonly string[];
}

/** A group of files with the field that it belongs to, and its number there, counted from 1. */
export interface Group<T extends Pairable> {
  readonly field: Field;
  readonly number: number;
  readonly units: readonly T[];
}

const stemOf = ({ name }: Pairable): string => foldedName(withoutVolumeEnding(name));

/** The name of a scan without the number of its channel (nnU-Net) or its suffix (BIDS): `sub-01` of `sub-01_T1w`. */
export const withoutSuffix = (stem: string): string => stem.replace(/_(\d{4}|[a-z][a-z0-9]*)$/, '');

/** The parts of directories that are not the same for all of both groups. */
function foldersOf(groups: readonly (readonly Pairable[])[]): string[][] {
  const lists = groups.map((group) =>
    group.map((unit) => path.dirname(path.resolve(unit.path)).split(path.sep)),
  );
  const shared = commonLength(lists.flat());
  return lists.map((group) => group.map((list) => list.slice(shared).join('/')));
}

/** Names without the words that all of a group end with: `A_t1` of `A_t1_mask`, if all are masks. */
function withoutSharedEnd(units: readonly Pairable[]): string[] {
  const words = units.map((unit) => stemOf(unit).split(/[_\-. ]/));
  const shared = commonLength(words.map((each) => each.toReversed()));
  const isOnly = units.length < 2;
  return words.map((each) => each.slice(0, isOnly ? undefined : each.length - shared).join('_'));
}

const folderOf = (unit: Pairable): string => foldedName(path.basename(path.dirname(path.resolve(unit.path))));

/** The labels of BIDS that say whose scan it is, and of which session; empty without a subject. */
function personOf(unit: Pairable): string {
  const [subject, session] = ['sub', 'ses'].map((entity) => labelOf(unit.path, entity));
  return subject === null ? '' : `${subject} ${session ?? ''}`;
}

/** Whether two files are of different subjects or sessions, as far as their paths say. */
export const areOfDifferent = (a: Pick<Pairable, 'path'>, b: Pick<Pairable, 'path'>): boolean =>
  ['sub', 'ses'].some((entity) => {
    const labels = [labelOf(a.path, entity), labelOf(b.path, entity)];
    return !labels.includes(null) && labels[0] !== labels[1];
  });

/** What may be equal for two files of a case: the keys of both groups. */
const ways: readonly ((groups: readonly (readonly Pairable[])[]) => string[][])[] = [
  (groups) => groups.map((group) => group.map(stemOf)),
  (groups) => groups.map((group) => group.map((unit) => withoutSuffix(stemOf(unit)))),
  (groups) => groups.map((group) => group.map(personOf)),
  (groups) => groups.map(withoutSharedEnd),
  foldersOf,
  ([first = [], other = []]) => [first.map(folderOf), other.map(stemOf)],
  ([first = [], other = []]) => [first.map(stemOf), other.map(folderOf)],
];

const areDistinct = (keys: readonly string[]): boolean => new Set(keys).size === keys.length;

/** The file of another group that belongs to each volume: the one with an equal name, equal entities or an equal folder. */
function partnersOf<T extends Pairable>(first: readonly T[], other: readonly T[]): Map<T, T> {
  let best = new Map<T, T>();
  for (const way of ways) {
    const [one = [], two = []] = way([first, other]);
    if (!areDistinct(one) || !areDistinct(two)) continue;
    const byKey = new Map(other.map((unit, at) => [two[at], unit]));
    const partners = new Map(
      first.flatMap((unit, at) => {
        const partner = one[at] === '' ? undefined : byKey.get(one[at]);
        return partner && !areOfDifferent(unit, partner) ? [[unit, partner] as const] : [];
      }),
    );
    if (partners.size > best.size) best = partners;
  }
  return best;
}

/** The units of these volumes, with their voxels. */
const withHalves = <T extends Pairable>(volumes: readonly T[], units: readonly T[]): T[] => {
  const paths = new Set(volumes.map((each) => each.path));
  const halves = units.filter((each) => each.isHalf && each.headers.some((header) => paths.has(header)));
  return [...volumes, ...halves];
};

/** How many files are named: whoever has to find them needs more than a few. */
const maxNamed = 30;

function listOf(units: readonly Pairable[]): string {
  const named = units.slice(0, maxNamed).map((unit) => quotePath(unit.path));
  const more = units.length > maxNamed ? ` and ${units.length - maxNamed} more` : '';
  return oneLine(named.join(', ')) + more;
}

/** What cases lack, in a sentence without its end; what was left out of each group. */
export interface Incomplete<T extends Pairable> {
  readonly groups: readonly (readonly T[])[];
  /** Empty if every case has all files. */
  readonly lacking: readonly string[];
}

/**
 * Pairs the files of all groups: by equal names, entities or folders, and by their order where a person typed every file of both groups.
 * Files of different subjects or sessions are paired in that order alone. A single file of a group that may be left out, such as one
 * mask, belongs to every case.
 * @param typed the paths that a person typed
 * @returns the groups without the cases that lack a file, in the order of the first, and what these lack
 */
export function pairCases<T extends Pairable>(
  groups: readonly Group<T>[],
  typed: ReadonlySet<string>,
): Incomplete<T> {
  const [first, ...others] = groups;
  if (!first) return { groups: [], lacking: [] };
  const cases = withoutHalves(first.units);
  const lacking: string[] = [];
  const isMissing = new Set<T>();
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
  return { groups: [withHalves(complete, first.units), ...kept], lacking };
}

/** @throws UsageError that names the cases that lack a file, if names say which these are */
export function refuseIncomplete(lacking: readonly string[], isEach: boolean): void {
  if (lacking.length === 0) return;
  const rest = isEach ? 'leave these out with --skip-incomplete' : 'leave these out';
  throw new UsageError(
    `${lacking.join('; ')}; give the files of a case the same names, add what is missing, or ${rest}`,
  );
}
