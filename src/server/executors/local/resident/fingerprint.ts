import { createHash } from 'node:crypto';
import { lstatSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { madeDirectories } from '../../../../files/made-directories.js';
import { TimeSlice } from '../../../../files/time-slice.js';

/** Most files that are looked at: an app with more is not programs but data. */
const mostFiles = 5000;

/** The files of a directory and below, in the order of their names, without hidden ones. */
function* filesBelow(directory: string): Generator<string, void> {
  const entries = readdirSync(directory, { withFileTypes: true });
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    if (entry.name.startsWith('.') || madeDirectories.has(entry.name)) continue;
    const file = path.join(directory, entry.name);
    if (entry.isDirectory()) yield* filesBelow(file);
    else yield file;
  }
}

function* filesOf(place: string): Generator<string, void> {
  if (lstatSync(place).isDirectory()) yield* filesBelow(place);
  else yield place;
}

/**
 * What tells whether one of these files and directories has changed: names, sizes and times of their files. What cannot be
 * looked at gives a text of its own. Looks without the thread pool, with pauses: a job waits for it before it starts, and each thread
 * would take longer to begin than a look takes.
 */
export async function fingerprint(places: readonly string[]): Promise<string> {
  const hash = createHash('sha256');
  const slice = new TimeSlice();
  let left = mostFiles;
  for (const place of places) {
    try {
      for (const file of filesOf(place)) {
        if (left === 0) break;
        left -= 1;
        const { size, mtimeMs, ino } = lstatSync(file);
        hash.update(`${JSON.stringify(file)} ${size} ${mtimeMs} ${ino}\n`);
        await slice.pause();
      }
    } catch {
      hash.update(`${JSON.stringify(place)} cannot be looked at\n`);
    }
  }
  return hash.digest('hex');
}
