import { createHash } from 'node:crypto';
import { lstatSync, readlinkSync, type Stats, statSync } from 'node:fs';
import path from 'node:path';
import { madeDirectories } from '../../../../files/made-directories.js';
import { namesIn } from '../../../../files/names-in.js';
import { TimeSlice } from '../../../../files/time-slice.js';

/** Most files and directories that are looked at: an app with more is not programs but data. */
const mostFiles = 5000;

/** What is not looked at in an app: besides what was made, the records of version control, which change by themselves. */
const ignored: ReadonlySet<string> = new Set([...madeDirectories, '.git', '.hg', '.svn']);

/** A file or a directory, as a link leads to it, and where the link points. */
interface Place {
  readonly file: string;
  /** Null for what cannot be looked at, such as the target of a link that is not there. */
  readonly stats: Stats | null;
  readonly link: string | null;
}

/** Calls a function that looks at a file. @returns null if it cannot be looked at */
function look<T>(at: () => T): T | null {
  try {
    return at();
  } catch {
    return null;
  }
}

function placeOf(file: string): Place {
  const own = look(() => lstatSync(file));
  if (!own?.isSymbolicLink()) return { file, stats: own, link: null };
  return { file, stats: look(() => statSync(file)), link: look(() => readlinkSync(file)) };
}

/**
 * A place and all below it, through links, each directory once: links may lead in a circle. Goes down level by level, so that
 * what is deep below, perhaps behind a link to data, does not take the share of the app's own files.
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
    // One by one: a directory of data may have more names than a call takes arguments.
    for (const name of namesIn(file).sort()) if (!ignored.has(name)) waiting.push(path.join(file, name));
  }
}

/**
 * What tells a place from what it was. Times of directories do not: they change with files that are not looked at. `ctimeMs` is the time
 * of the last change that nobody sets: `cp -p` and `tar` put other weights in the place of the old ones with the same size and `mtimeMs`.
 */
function describe({ file, stats, link }: Place): string {
  if (stats === null) return JSON.stringify([file, link, 'cannot be looked at']);
  if (stats.isDirectory()) return JSON.stringify([file, link, 'directory']);
  return JSON.stringify([file, link, stats.size, stats.mtimeMs, stats.ctimeMs, stats.ino]);
}

/**
 * What tells whether one of these files and directories has changed: names, sizes and times of their files, and where links
 * lead. What cannot be looked at gives a text of its own. Looks without the thread pool, with pauses: a job waits for it before
 * it starts, and each thread would take longer to begin than a look takes.
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
