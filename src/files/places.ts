import { lstatSync, readlinkSync, type Stats, statSync } from 'node:fs';
import path from 'node:path';
import { madeDirectories, namesIn } from './directories.js';

/** Names that are skipped: generated directories, and those of version control, which change by themselves. */
const ignored: ReadonlySet<string> = new Set([...madeDirectories, '.git', '.hg', '.svn']);

/** A file or a directory, with links followed, and the link's target. */
export interface Place {
  readonly file: string;
  /** Null if it cannot be read, for example because of a dangling link. */
  readonly stats: Stats | null;
  readonly link: string | null;
}

/** The result of a function; null if it throws. */
function orNull<T>(read: () => T): T | null {
  try {
    return read();
  } catch {
    return null;
  }
}

function placeOf(file: string): Place {
  const own = orNull(() => lstatSync(file));
  if (!own?.isSymbolicLink()) return { file, stats: own, link: null };
  return { file, stats: orNull(() => statSync(file)), link: orNull(() => readlinkSync(file)) };
}

/**
 * A path and everything below it that its author wrote, following links, each directory once, because links may form a
 * cycle. Goes down level by level, so that deep trees, perhaps behind a link to data, do not crowd out the files at the
 * top. In the order of names, which is the same on all machines. Uses synchronous calls: the thread pool is slower.
 * @param isLeftOut whether a directory is left out with all below it
 */
export function* placesFrom(
  start: string,
  isLeftOut = (_directory: string): boolean => false,
): Generator<Place, void> {
  const seen = new Set<string>();
  const waiting = [start];
  for (const file of waiting) {
    const place = placeOf(file);
    const { stats } = place;
    const isDirectory = stats?.isDirectory() ?? false;
    if (isDirectory && isLeftOut(file)) continue;
    yield place;
    if (!isDirectory || seen.has(`${stats?.dev} ${stats?.ino}`)) continue;
    seen.add(`${stats?.dev} ${stats?.ino}`);
    // One by one, because a data directory may have more names than a call takes arguments.
    for (const name of namesIn(file).sort()) if (!ignored.has(name)) waiting.push(path.join(file, name));
  }
}

/**
 * What changes when a file gets another content. `ctimeMs` is included because `cp -p` and `tar` can replace a file by
 * another with the same size and `mtimeMs`.
 */
export const contentStamp = ({ size, mtimeMs, ctimeMs, ino }: Stats): readonly number[] => [
  size,
  mtimeMs,
  ctimeMs,
  ino,
];
