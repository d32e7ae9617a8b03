import { realpathSync, statSync } from 'node:fs';
import path from 'node:path';

/** A file or directory of the machine that a job sees. */
export interface Visible {
  /** Its name, inside as outside. */
  readonly path: string;
  readonly isWritable: boolean;
}

/** The path without links; the path itself if there is no such file. */
export function realPath(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return file;
  }
}

export const isWithin = (directory: string, file: string): boolean =>
  file === directory || file.startsWith(directory === '/' ? '/' : directory + path.sep);

/** Each under its own name and, where links lead to it, under its real one: programs use either. Parents come first. */
export function withRealPaths(visible: readonly Visible[]): Visible[] {
  const all = new Map<string, Visible>();
  for (const each of visible) {
    for (const name of [each.path, realPath(each.path)]) {
      const isWritable = each.isWritable || (all.get(name)?.isWritable ?? false);
      all.set(name, { path: name, isWritable });
    }
  }
  return [...all.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** What covers something that must not be seen. */
export const cover = (place: string, isDirectory: boolean): string[] =>
  isDirectory ? ['--tmpfs', place] : ['--ro-bind', '/dev/null', place];

/** Arguments of bwrap in two parts: what covers, and what closes the covers once everything below them is mounted. */
export interface Covers {
  readonly covers: readonly string[];
  readonly seals: readonly string[];
}

/**
 * Covers what must not be seen wherever it can be seen: under its real path, and under that of each link that is visible.
 * @param hidden real paths
 */
export function coverHidden(hidden: readonly string[], visible: readonly string[]): Covers {
  const covers: string[] = [];
  const seals: string[] = [];
  for (const secret of hidden) {
    const stats = statSync(secret, { throwIfNoEntry: false });
    if (!stats) continue;
    const places = visible.flatMap((each) => {
      const real = realPath(each);
      return isWithin(real, secret) ? [path.join(each, path.relative(real, secret))] : [];
    });
    for (const place of new Set(places)) {
      covers.push(...cover(place, stats.isDirectory()));
      if (stats.isDirectory()) seals.push('--remount-ro', place);
    }
  }
  return { covers, seals };
}
