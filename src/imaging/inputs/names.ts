import path from 'node:path';
import type { Unit } from '../../client/found-files.js';
import { volumeSuffix } from '../../contract/index.js';
import { foldedName, freeName } from '../../files/index.js';

/** A name up to its first dot: `vol` of `vol.hdr`, `vol.img` and `vol.nii.gz`. */
const stemOf = (name: string): string => name.slice(0, Math.max(0, name.indexOf('.', 1)) || name.length);

/** The name of a path without the suffix that makes an archive a volume. */
export function plainName(target: string): string {
  const name = path.basename(path.resolve(target));
  return name.endsWith(volumeSuffix) ? name.slice(0, -volumeSuffix.length) : name;
}

/**
 * The preferred name of a file, without characters that a multipart form cannot carry: servers take only what follows a backslash
 * as the file name, as on Windows; a line break is written as `%0A`, a quotation mark as `%22`.
 */
const wantedName = (target: string): string => plainName(target).replaceAll(/\\|[\r\n]|%(?=0A|0D|22)/gi, '_');

/** A directory name as a prefix for a file name: without dots, since apps cut names at the first dot. */
const asPrefix = (part: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is replaced
  part.replace(/[.<>:"|?*\\\u0000-\u001f\u007f]+/g, '-').replace(/^-+/, '');

/** A path whose last part is the preferred name of a unit. */
export const wantedPath = (unit: Unit): string =>
  unit.kind === 'series' ? path.join(unit.path, '..', unit.wanted) : unit.path;

/** Groups elements by their keys, in the order of the first element of each group. */
export function groupBy<T>(elements: readonly T[], keyOf: (element: T) => string): T[][] {
  const groups = new Map<string, T[]>();
  for (const element of elements) {
    const key = keyOf(element);
    const group = groups.get(key);
    if (group) group.push(element);
    else groups.set(key, [element]);
  }
  return [...groups.values()];
}

/** Number of leading elements that all lists share. */
export function commonLength(lists: readonly (readonly string[])[]): number {
  const [first = [], ...others] = lists;
  const differs = first.findIndex((part, at) => others.some((list) => list[at] !== part));
  return differs < 0 ? first.length : differs;
}

/** The parts that distinguish directories: `sub-01` and `sub-02` of `/data/sub-01/anat` and `/data/sub-02/anat`. */
function differences(directories: ReadonlySet<string>): Map<string, string> {
  const lists = [...directories].map((each) => each.split(path.sep));
  const shortest = Math.min(...lists.map((list) => list.length));
  // Each directory keeps at least one part, since a file with an unchanged name could be mistaken for one that another header
  // names.
  const start = Math.min(commonLength(lists), shortest - 1);
  const rests = lists.map((list) => list.slice(start));
  const end = Math.min(
    commonLength(rests.map((rest) => rest.toReversed())),
    ...rests.map((rest) => rest.length - 1),
  );
  const labels = rests.map((rest) =>
    rest
      .slice(0, rest.length - end)
      .map(asPrefix)
      .filter(Boolean)
      .join('_'),
  );
  return new Map([...directories].map((each, index) => [each, labels[index] ?? '']));
}

/** The preferred names of files with the same stem. If two share a name, each gets the parts by which its directory differs. */
function apart(paths: readonly string[]): string[] {
  const names = paths.map(wantedName);
  if (new Set(names.map(foldedName)).size === names.length) return names;
  const directories = paths.map((each) => path.dirname(path.resolve(each)));
  const distinct = new Set(directories);
  if (distinct.size === 1) return names;
  const labels = differences(distinct);
  return names.map((name, index) => [labels.get(directories[index] ?? ''), name].filter(Boolean).join('_'));
}

/**
 * The names under which an app receives the files of one group. A unique name is unchanged. Files whose names differ at most in
 * case get the parts by which their paths differ: `sub-01_T1w.nii.gz` and `sub-02_T1w.nii.gz`, not `T1w.nii.gz` and
 * `T1w_1.nii.gz`. Files that belong together (`.hdr` and `.img`) are renamed alike.
 */
export function namesOf(paths: readonly string[]): string[] {
  // A shortcut for the cases of a cohort: each has one path, and there may be thousands.
  if (paths.length === 1) return paths.map(wantedName);
  const stemAt = (index: number) => foldedName(stemOf(wantedName(paths[index] ?? '')));
  const wanted: string[] = [];
  for (const indexes of groupBy([...paths.keys()], stemAt)) {
    const names = apart(indexes.map((index) => paths[index] ?? ''));
    for (const [at, index] of indexes.entries()) wanted[index] = names[at] ?? '';
  }
  const isKept = (index: number) => wanted[index] === plainName(paths[index] ?? '');
  // Two files of one directory may differ only in case: they keep their names.
  const exact = new Set<string>();
  const taken = new Set<string>();
  const given: string[] = [];
  for (const [index, name] of wanted.entries()) {
    if (!isKept(index) || exact.has(name)) continue;
    exact.add(name);
    taken.add(foldedName(name));
    given[index] = name;
  }
  const counts = new Map<string, number>();
  return wanted.map((name, index) => {
    const kept = given[index];
    if (kept !== undefined) return kept;
    const free = freeName(name, counts, (each) => taken.has(foldedName(each)));
    taken.add(foldedName(free));
    return free;
  });
}
