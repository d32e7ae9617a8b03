import path from 'node:path';
import { keysOf } from './name-keys.js';

interface NamedFile {
  readonly path: string;
  /** The name by which the app gets it. */
  readonly name: string;
  /** Whether another file of its group is its header, which counts for both. */
  readonly isHalf: boolean;
}

/** How two groups belong together, where that cannot be taken for granted. */
export interface Pairing {
  /**
   * `name`: the second group was put into the order of the first. `order`: the names do not say which files belong together.
   * `count`: the groups have different numbers of files.
   */
  readonly by: 'name' | 'order' | 'count';
  readonly counts: readonly [number, number];
  /** Paths of the files that are at the same place of both groups. */
  readonly pairs: readonly (readonly [string, string])[];
}

/** A group, as it is sent, and what is to be said of it. */
interface Paired<T> {
  readonly group: readonly T[];
  readonly pairing: Pairing | null;
}

function pairingOf(by: Pairing['by'], first: readonly NamedFile[], other: readonly NamedFile[]): Pairing {
  const common = Math.min(first.length, other.length);
  const pairs = first.slice(0, common).map((file, at) => [file.path, other[at]?.path ?? ''] as const);
  return { by, counts: [first.length, other.length], pairs };
}

/** A group in the order of the keys of another one; null where it does not have the same keys, or one of them twice. */
function inOrderOf<T>(wanted: readonly string[], group: readonly T[], keys: readonly string[]): T[] | null {
  const byKey = new Map(group.map((file, at) => [keys[at], file]));
  if (new Set(wanted).size < wanted.length || byKey.size < group.length) return null;
  const ordered = wanted.flatMap((key) => byKey.get(key) ?? []);
  return ordered.length === group.length ? ordered : null;
}

const withoutHalves = <T extends NamedFile>(files: readonly T[]): T[] =>
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
  // Nobody wants a file compared with itself: they were crossed on purpose.
  const isCrossed = ordered?.some(
    (file, at) => path.resolve(file.path) === path.resolve(first[at]?.path ?? ''),
  );
  if (!ordered || isCrossed) return { group: files, pairing: pairingOf('order', first, group) };
  const halves = files.filter(({ isHalf }) => isHalf);
  return { group: [...ordered, ...halves], pairing: pairingOf('name', first, ordered) };
}

/**
 * Brings all groups of a submission into the order of the first. Apps take the files at the same place of all groups for one
 * case: of the channels, of predictions, of ground truth and masks (docs/apps.md). The order is changed only where the
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
