import { realpathSync } from 'node:fs';
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

/** Where a file or directory is seen: under its real path, and under that of each link that is visible. */
export function placesOf(real: string, visible: readonly string[]): string[] {
  const places = visible.flatMap((each) => {
    const shown = realPath(each);
    return isWithin(shown, real) ? [path.join(each, path.relative(shown, real))] : [];
  });
  return [...new Set(places)];
}
