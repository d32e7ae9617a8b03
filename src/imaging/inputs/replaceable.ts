import { realpathSync, statSync } from 'node:fs';
import path from 'node:path';
import type { Obstacles } from './entries.js';

/** Identifies a directory on this machine, whatever path leads to it; null if it does not exist. */
function identityOf(directory: string): string | null {
  const stats = statSync(directory, { bigint: true, throwIfNoEntry: false });
  return stats ? `${stats.dev}:${stats.ino}` : null;
}

/** Tells whether a directory is the wanted one or lies inside it, following links. */
function insideOf(wanted: string): (directory: string) => boolean {
  const known = new Map<string, boolean>();
  const isInside = (directory: string): boolean => {
    const found = known.get(directory);
    if (found !== undefined) return found;
    const above = path.dirname(directory);
    const isIn = identityOf(directory) === wanted || (above !== directory && isInside(above));
    known.set(directory, isIn);
    return isIn;
  };
  return isInside;
}

/** Where a file is, by its path and after following links. Empty if it is gone: sending it reports that. */
function placesOf(file: string): string[] {
  try {
    return [path.join(realpathSync(path.dirname(file)), path.basename(file)), realpathSync(file)];
  } catch {
    return [];
  }
}

/**
 * Adds to the obstacles the files that a result could replace: those in the directory that it goes to. Apps name results
 * after their inputs, so the names would be the same.
 */
export function checkReplaceable(files: readonly string[], output: string, obstacles: Obstacles): void {
  const wanted = identityOf(output);
  if (wanted === null) return;
  const isInside = insideOf(wanted);
  for (const file of files) {
    if (!placesOf(file).some((place) => isInside(path.dirname(place)))) continue;
    const why = 'is in the directory that results go to, where one of them could replace it; ';
    obstacles.add(file, `${why}name another directory with --output`);
  }
}
