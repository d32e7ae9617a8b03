import { type BigIntStats, statSync } from 'node:fs';
import path from 'node:path';
import { readJsonFile, writeJsonFile } from '../../files/atomic-json.js';

/** Where a data directory is. */
interface Place {
  readonly path: string;
  readonly inode: string;
}

/** What is known of where a data directory is and was. */
export interface KnownPlace {
  /** Whether its last server worked on it under this path. */
  readonly isSame: boolean;
  /** Real paths of the directories of which it is a copy, as far as they are still there. */
  readonly originals: readonly string[];
}

/** Follows links. Undefined for what is not there or cannot be looked at. */
function lookAt(file: string): BigIntStats | undefined {
  try {
    return statSync(file, { bigint: true, throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

const placeFile = (directory: string): string => path.join(directory, 'serve.place');

const placeOf = (directory: string): Place => ({
  path: directory,
  inode: lookAt(directory)?.ino.toString() ?? '',
});

const isPlace = (value: unknown): value is Place => {
  const { path: place, inode } = Object(value) as Partial<Record<keyof Place, unknown>>;
  return typeof place === 'string' && path.isAbsolute(place) && typeof inode === 'string';
};

/** What the last server noted: where the directory was, then its originals. Empty if that is not known. */
function readPlaces(directory: string): readonly Place[] {
  try {
    const noted = readJsonFile(placeFile(directory));
    const { originals } = Object(noted) as { originals?: unknown };
    return [noted, ...(Array.isArray(originals) ? originals : [])].filter(isPlace);
  } catch {
    return [];
  }
}

/** Whether there is something under one name, and it is not what has the other name. */
export function isOther(place: string, directory: string): boolean {
  const there = lookAt(place);
  const here = lookAt(directory);
  return there !== undefined && (there.ino !== here?.ino || there.dev !== here.dev);
}

/** Whether a place still has its directory, and that is another one than this. */
const isElsewhere = ({ path: place, inode }: Place, directory: string): boolean =>
  lookAt(place)?.ino.toString() === inode && isOther(place, directory);

/** The places of the directories of which this is a copy. A directory that was moved has left its old place. */
const originalsOf = (directory: string): Place[] =>
  readPlaces(directory).filter((place) => isElsewhere(place, directory));

/**
 * Reads where a data directory was at its last start.
 * @param directory its real path
 */
export function knownPlace(directory: string): KnownPlace {
  const [last] = readPlaces(directory);
  const here = placeOf(directory);
  return {
    isSame: last?.path === here.path && last.inode === here.inode,
    originals: originalsOf(directory).map((each) => each.path),
  };
}

/** Notes in `serve.place` where a data directory is, and of which directories it is a copy. */
export function notePlace(directory: string): void {
  const note = { ...placeOf(directory), originals: originalsOf(directory) };
  try {
    writeJsonFile(placeFile(directory), note, { isKept: false });
  } catch {
    // A full disk: the note of the next start will do.
  }
}
