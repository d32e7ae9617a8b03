import { execFile } from 'node:child_process';
import { opendirSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { errorCode } from './error-code.js';
import { syncDirectory, syncFile } from './sync.js';

const run = promisify(execFile);

/** For more names than this, one `sync` of the file system is faster than one for each (2000 files: 24 ms, 300 ms). */
const manyNames = 32;

/** Files and directories that are synced at once: all that a small submission has. */
const atOnce = 16;

/** A file or a directory of a tree. */
interface Place {
  readonly path: string;
  readonly isDirectory: boolean;
}

/** Adds what a directory holds. Returns how many names it has, or more than `most`. */
function addEntries(directory: string, places: Place[], most: number): number {
  const entries = opendirSync(directory);
  let names = 0;
  try {
    for (let entry = entries.readSync(); entry !== null; entry = entries.readSync()) {
      names += 1;
      if (names > most) break;
      const isDirectory = entry.isDirectory();
      // Anything else has no bytes of its own, and could block.
      if (isDirectory || entry.isFile()) places.push({ path: path.join(directory, entry.name), isDirectory });
    }
    return names;
  } finally {
    entries.closeSync();
  }
}

/**
 * A tree that has few names: itself, its directories and its files. Undefined for one that has many, or a directory that
 * cannot be listed. Blocks for these few names: a job's start would wait longer for a thread for each of them.
 */
function fewPlaces(directory: string): readonly Place[] | undefined {
  const places: Place[] = [{ path: directory, isDirectory: true }];
  const synced: Place[] = [];
  let left = manyNames;
  try {
    // Those that are added are walked as well.
    for (const place of places) {
      const names = place.isDirectory ? addEntries(place.path, places, left) : 0;
      left -= names;
      if (left < 0) return undefined;
      // An empty directory has no names to sync.
      if (names > 0 || !place.isDirectory) synced.push(place);
    }
    return synced;
  } catch (cause) {
    if (errorCode(cause) !== 'EACCES') throw cause;
    return undefined;
  }
}

/** Syncs a file, or the names in a directory. Skips what is gone meanwhile. */
const syncPlace = ({ path: place, isDirectory }: Place): Promise<void> =>
  (isDirectory ? syncDirectory(place) : syncFile(place)).catch(ignoreGone);

/** Some at once, because the disk commits them together; not all, because each takes a descriptor. */
async function syncAll(places: readonly Place[]): Promise<void> {
  for (let done = 0; done < places.length; done += atOnce) {
    await Promise.all(places.slice(done, done + atOnce).map(syncPlace));
  }
}

/** Syncs each file and directory of a tree. Skips what is gone by now, and everything that is neither. */
async function syncEach(directory: string): Promise<void> {
  const entries = await readdir(directory, { withFileTypes: true });
  for (const each of entries.filter((entry) => entry.isDirectory())) {
    await syncEach(path.join(directory, each.name)).catch(ignoreGone);
  }
  const files = entries.filter((entry) => entry.isFile());
  await syncAll(files.map(({ name }) => ({ path: path.join(directory, name), isDirectory: false })));
  await syncDirectory(directory);
}

/** Ignores the errors of files that are gone, or cannot be opened because their owner may not read them. */
function ignoreGone(cause: unknown): void {
  if (!['ENOENT', 'EACCES', 'ELOOP'].includes(errorCode(cause))) throw cause;
}

/**
 * Makes all files of a tree, and their names, survive a power cut.
 * @throws the system's error, also for an earlier write that the disk could not complete
 */
export async function syncTree(directory: string): Promise<void> {
  const few = fewPlaces(directory);
  if (few !== undefined) {
    await syncAll(few);
    return;
  }
  try {
    // Syncs the whole file system, so it may also wait for the bytes of other writers. Names the parent: a directory
    // that its owner may not read cannot be named.
    await run('sync', ['--file-system', '--', path.dirname(directory)]);
    return;
  } catch (cause) {
    // Not every system has the program or this option. If the disk fails, `syncEach` below fails as well.
    if (!['ENOENT', '1'].includes(errorCode(cause))) throw cause;
  }
  await syncEach(directory).catch(ignoreGone);
}
