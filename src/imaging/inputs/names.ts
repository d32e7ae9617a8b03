import path from 'node:path';
import type { Unit } from '../../client/found-files.js';
import { volumeSuffix } from '../../contract/index.js';
import { differingParts, foldedName, freeName } from '../../files/index.js';
import { withoutVolumeEnding } from './formats.js';

/**
 * The parts that distinguish the names of one group: each name without the extension of a volume, and without the start
 * and end that all have in common. `01` and `02` of `sub-01_seg.nii.gz` and `sub-02_seg.nii.gz`.
 */
export function keysOf(names: readonly string[]): string[] {
  return differingParts(names.map((name) => foldedName(withoutVolumeEnding(name))));
}

/** A name up to its first dot: `vol` of `vol.hdr`, `vol.img` and `vol.nii.gz`. */
const stemOf = (name: string): string => name.slice(0, Math.max(0, name.indexOf('.', 1)) || name.length);

/** The name of a path without the suffix that makes an archive a volume. */
export function plainName(target: string): string {
  const name = path.basename(path.resolve(target));
  return name.endsWith(volumeSuffix) ? name.slice(0, -volumeSuffix.length) : name;
}

/**
 * The name that a file is to have, without what a form cannot carry: a server takes only what follows a backslash as the
 * file name, as on Windows; a line break is written as `%0A`, and a quotation mark as `%22`.
 */
const wantedName = (target: string): string => plainName(target).replaceAll(/\\|[\r\n]|%(?=0A|0D|22)/gi, '_');

/** A directory's name as the beginning of a file's: without dots, since apps cut a name at its first dot. */
const asPrefix = (part: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is replaced
  part.replace(/[.<>:"|?*\\\u0000-\u001f\u007f]+/g, '-').replace(/^-+/, '');

/** The path whose last part is the name that a unit should have. */
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

/** How many leading elements all lists have in common. */
export function commonLength(lists: readonly (readonly string[])[]): number {
  const [first = [], ...others] = lists;
  const differs = first.findIndex((part, at) => others.some((list) => list[at] !== part));
  return differs < 0 ? first.length : differs;
}

/** The parts that distinguish directories: `sub-01` and `sub-02` of `/data/sub-01/anat` and `/data/sub-02/anat`. */
function differences(directories: ReadonlySet<string>): Map<string, string> {
  const lists = [...directories].map((each) => each.split(path.sep));
  const shortest = Math.min(...lists.map((list) => list.length));
  // Each keeps at least one part: a file that kept its name could be taken for one that another header names inside.
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

/** The wanted names of files with one stem. Where two share a name, all of them get what tells their directories apart. */
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
 * The names by which an app gets the files of one group. A name that is the only one of its kind stays. Files that share a
 * name, also where only the case differs, get the parts of their paths that differ: `sub-01_T1w.nii.gz` and
 * `sub-02_T1w.nii.gz`, not `T1w.nii.gz` and `T1w_1.nii.gz`. Files that belong together (`.hdr` and `.img`) are named alike.
 */
export function namesOf(paths: readonly string[]): string[] {
  // Each case of a cohort is one, and there may be thousands.
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

interface NamedFile {
  readonly path: string;
  /** The name under which the app receives it. */
  readonly name: string;
  /** Whether another file of its group is its header, which counts for both. */
  readonly isHalf: boolean;
}

/** How two groups belong together, if that is not obvious. */
export interface Pairing {
  /**
   * `name`: the second group was put into the order of the first. `order`: the names do not say which files belong together.
   * `count`: the groups have different numbers of files.
   */
  readonly by: 'name' | 'order' | 'count';
  /** Paths of the files of both groups. */
  readonly groups: readonly [readonly string[], readonly string[]];
  /** Pairs of paths at the same position in both groups. */
  readonly pairs: readonly (readonly [string, string])[];
}

/** A group as it is sent, with remarks about it. */
interface Paired<T> {
  readonly group: readonly T[];
  readonly pairing: Pairing | null;
}

function pairingOf(by: Pairing['by'], first: readonly NamedFile[], other: readonly NamedFile[]): Pairing {
  const common = Math.min(first.length, other.length);
  const pairs = first.slice(0, common).map((file, at) => [file.path, other[at]?.path ?? ''] as const);
  const groups = [first.map((file) => file.path), other.map((file) => file.path)] as const;
  return { by, groups, pairs };
}

/** A group in the order of another one's keys; null if it does not have the same keys, or these have one twice. */
function inOrderOf<T>(wanted: readonly string[], group: readonly T[], keys: readonly string[]): T[] | null {
  if (new Set(wanted).size < wanted.length) return null;
  const byKey = new Map(group.map((file, at) => [keys[at], file]));
  const ordered = wanted.flatMap((key) => byKey.get(key) ?? []);
  return ordered.length === group.length ? ordered : null;
}

/** The volumes of a group: a header stands for its voxels. */
export const withoutHalves = <T extends NamedFile>(files: readonly T[]): T[] =>
  files.filter(({ isHalf }) => !isHalf);

const keysOfFiles = (files: readonly NamedFile[]): string[] => keysOf(files.map(({ name }) => name));

function pair<T extends NamedFile>(firstFiles: readonly T[], files: readonly T[]): Paired<T> {
  const first = withoutHalves(firstFiles);
  const group = withoutHalves(files);
  // One file may be for all, such as a mask.
  if (first.length < 2 || group.length < 2) return { group: files, pairing: null };
  if (first.length !== group.length) return { group: files, pairing: pairingOf('count', first, group) };
  const wanted = keysOfFiles(first);
  const keys = keysOfFiles(group);
  if (wanted.every((key, at) => key === keys[at])) return { group: files, pairing: null };
  const ordered = inOrderOf(wanted, group, keys);
  // Nobody wants to compare a file with itself, so they were crossed on purpose.
  const isCrossed = ordered?.some(
    (file, at) => path.resolve(file.path) === path.resolve(first[at]?.path ?? ''),
  );
  if (!ordered || isCrossed) return { group: files, pairing: pairingOf('order', first, group) };
  const halves = files.filter(({ isHalf }) => isHalf);
  return { group: [...ordered, ...halves], pairing: pairingOf('name', first, ordered) };
}

/**
 * Brings all groups of a submission into the order of the first. Apps treat the files at the same position in all groups
 * as one case, whether channels, predictions, ground truth or masks (docs/apps.md). The order is changed only if the
 * names leave no doubt.
 */
export function pairGroups<T extends NamedFile>(
  groups: readonly (readonly T[])[],
): { readonly groups: readonly (readonly T[])[]; readonly pairings: readonly Pairing[] } {
  const [first = [], ...others] = groups;
  const paired = others.map((group) => pair(first, group));
  return {
    groups: [first, ...paired.map(({ group }) => group)],
    pairings: paired.flatMap(({ pairing }) => pairing ?? []),
  };
}
