import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import { counted, type Field, oneLine, quotePath } from '../../contract/index.js';
import { foldedName } from '../../files/index.js';
import { withoutVolumeEnding } from './formats.js';
import { commonLength, keysOf, withoutHalves } from './names.js';

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

/** Ways to say what tells the cases of two groups apart: the keys of both. */
const ways: readonly ((groups: readonly (readonly Pairable[])[]) => string[][])[] = [
  (groups) => groups.map((group) => keysOf(group.map(({ name }) => name))),
  (groups) => groups.map((group) => group.map(stemOf)),
  (groups) => groups.map((group) => group.map((unit) => withoutSuffix(stemOf(unit)))),
  foldersOf,
];

const areDistinct = (keys: readonly string[]): boolean => new Set(keys).size === keys.length;

/** The keys by which most files of two groups belong together; null if none do. */
function keysOfBoth(first: readonly Pairable[], other: readonly Pairable[]): string[][] | null {
  let [best, most]: [string[][] | null, number] = [null, 0];
  for (const way of ways) {
    const keys = way([first, other]);
    const [one = [], two = []] = keys;
    const matches = one.filter((key) => key !== '' && two.includes(key)).length;
    if (matches > most && areDistinct(one) && areDistinct(two)) [best, most] = [keys, matches];
  }
  return best;
}

/** The units of these volumes, with their voxels. */
const withHalves = <T extends Pairable>(volumes: readonly T[], units: readonly T[]): T[] => {
  const paths = new Set(volumes.map((each) => each.path));
  const halves = units.filter((each) => each.isHalf && each.headers.some((header) => paths.has(header)));
  return [...volumes, ...halves];
};

/** Most files that are named: whoever has to find them needs more than a few. */
const mostNamed = 30;

function listOf(units: readonly Pairable[]): string {
  const named = units.slice(0, mostNamed).map((unit) => quotePath(unit.path));
  const more = units.length > mostNamed ? ` and ${units.length - mostNamed} more` : '';
  return oneLine(named.join(', ')) + more;
}

/** What cases lack, in a sentence without its end; what was left out of each group. */
export interface Incomplete<T extends Pairable> {
  readonly groups: readonly (readonly T[])[];
  /** Empty if every case has all files. */
  readonly lacking: readonly string[];
}

/**
 * Finds the cases that have a file in some groups and not in others, as far as names or folders say which files belong together. A
 * single file of a group that may be left out, such as one mask, belongs to every case.
 * @returns the groups without these cases, in the order of the first, and what they lack
 */
export function withoutIncomplete<T extends Pairable>(groups: readonly Group<T>[]): Incomplete<T> {
  const all = groups.map(({ units }) => units);
  const [first, ...others] = groups;
  if (!first) return { groups: all, lacking: [] };
  const cases = withoutHalves(first.units);
  const lacking: string[] = [];
  const isMissing = new Set<T>();
  const partners = others.map(({ field, number, units }) => {
    const volumes = withoutHalves(units);
    const isForAll = volumes.length === 1 && !field.required;
    const keys = isForAll ? null : keysOfBoth(cases, volumes);
    if (!keys) return null;
    const [ofCases = [], ofVolumes = []] = keys;
    const byKey = new Map(volumes.map((unit, at) => [ofVolumes[at], unit]));
    const partner = new Map(cases.map((unit, at) => [unit, byKey.get(ofCases[at])]));
    const group = field === first.field ? `group ${number} of --${field.name}` : `--${field.name}`;
    const without = cases.filter((unit) => !partner.get(unit));
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
  if (lacking.length === 0) return { groups: all, lacking };
  const complete = cases.filter((unit) => !isMissing.has(unit));
  const kept = others.map(({ units }, at) => {
    const partner = partners[at];
    return partner
      ? withHalves(
          complete.flatMap((unit) => partner.get(unit) ?? []),
          units,
        )
      : units;
  });
  return { groups: [withHalves(complete, first.units), ...kept], lacking };
}

/** @throws UsageError that names the cases that lack a file, if names say which these are */
export function refuseIncomplete(lacking: readonly string[], isEach: boolean): void {
  if (lacking.length === 0) return;
  const rest = isEach ? 'leave these out with --skip-incomplete' : 'leave these out';
  throw new UsageError(`${lacking.join('; ')}; add what is missing, or ${rest}`);
}
