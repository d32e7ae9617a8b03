import { realpathSync, statSync } from 'node:fs';
import path from 'node:path';
import type { Obstacles } from './obstacles.js';

/** What a directory is on this machine, under whatever path; null if it is not there. */
function identityOf(directory: string): string | null {
  const stats = statSync(directory, { bigint: true, throwIfNoEntry: false });
  return stats ? `${stats.dev}:${stats.ino}` : null;
}

/** Tells whether directories are the wanted one or lie in it, links followed. */
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

/** Where a file is: by its path, and by what a link leads to. None for one that is gone, which whoever sends it finds out. */
function placesOf(file: string): string[] {
  try {
    return [path.join(realpathSync(path.dirname(file)), path.basename(file)), realpathSync(file)];
  } catch {
    return [];
  }
}

/**
 * Adds to the obstacles the files that a result could replace: those in the directory that it goes to. Apps name results as
 * their inputs, so that the names would be the same.
 */
export function checkReplaceable(files: readonly string[], output: string, obstacles: Obstacles): void {
  const wanted = identityOf(output);
  if (wanted === null) return;
  const isInside = insideOf(wanted);
  for (const file of files) {
    if (!placesOf(file).some((place) => isInside(path.dirname(place)))) continue;
    const why = 'is in the directory that results go to, where --force lets them replace it; ';
    obstacles.add(file, `${why}name another directory with --output`);
  }
}
