import { createHash } from 'node:crypto';
import { lstatSync, readlinkSync, type Stats, statSync } from 'node:fs';
import path from 'node:path';
import { madeDirectories, namesIn, TimeSlice } from '../../../files/index.js';

/** Most files and directories that are examined: an app with more of them contains data. */
const mostFiles = 5000;

/** Names that are skipped in an app: generated directories, and those of version control, which change by themselves. */
const ignored: ReadonlySet<string> = new Set([...madeDirectories, '.git', '.hg', '.svn']);

/** A file or a directory, with links followed, and the link's target. */
interface Place {
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
 * A path and everything below it, following links, each directory once, because links may form a cycle. Goes down level
 * by level, so that deep trees, perhaps behind a link to data, do not crowd out the app's own files.
 */
function* placesFrom(start: string): Generator<Place, void> {
  const seen = new Set<string>();
  const waiting = [start];
  for (const file of waiting) {
    const place = placeOf(file);
    yield place;
    const { stats } = place;
    if (!stats?.isDirectory() || seen.has(`${stats.dev} ${stats.ino}`)) continue;
    seen.add(`${stats.dev} ${stats.ino}`);
    // One by one, because a data directory may have more names than a call takes arguments.
    for (const name of namesIn(file).sort()) if (!ignored.has(name)) waiting.push(path.join(file, name));
  }
}

/**
 * A text that changes with a file. The times of directories are left out, because skipped files change them. `ctimeMs` is
 * included because `cp -p` and `tar` can replace weights by others with the same size and `mtimeMs`.
 */
function describe({ file, stats, link }: Place): string {
  if (stats === null) return JSON.stringify([file, link, 'cannot be read']);
  if (stats.isDirectory()) return JSON.stringify([file, link, 'directory']);
  return JSON.stringify([file, link, stats.size, stats.mtimeMs, stats.ctimeMs, stats.ino]);
}

/**
 * A hash that changes with these files and directories: names, sizes and times of their files, and the targets of links.
 * Uses synchronous calls with pauses, because a job waits for this, and the thread pool is slower.
 */
export async function fingerprint(places: readonly string[]): Promise<string> {
  const hash = createHash('sha256');
  const slice = new TimeSlice();
  let left = mostFiles;
  for (const start of places) {
    for (const place of placesFrom(start)) {
      if (left === 0) break;
      left -= 1;
      hash.update(`${describe(place)}\n`);
      await slice.pause();
    }
  }
  return hash.digest('hex');
}
