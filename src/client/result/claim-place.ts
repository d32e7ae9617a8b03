import { existsSync } from 'node:fs';
import { rm, rmdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { errorCode } from '../../files/error-code.js';
import { makeDirectory } from '../../files/make-directory.js';
import { claimName } from '../earlier-results.js';
import { claimedBy, hasFiles, isFreeFor, noPlace, type OutputDirectory, placesOf } from './destination.js';

/** A directory that is being filled. */
export interface Place {
  /** Absolute. */
  readonly directory: string;
  /** The result is complete, or as complete as it will be. */
  done(): Promise<void>;
  /** The result is not complete. Removes what was made for it, unless there is a part of the result: a repeat completes that. */
  giveUp(): Promise<void>;
}

/**
 * Makes a directory and the parents that it lacks.
 * @returns the first that was made; undefined if it was there
 */
function make(directory: string): string | undefined {
  let first: string | undefined;
  for (let each = directory; !existsSync(each); each = path.dirname(each)) first = each;
  makeDirectory(directory);
  return first;
}

/** Removes the directories that were made for a result, from `last` up to `first`, if they are empty. Never throws. */
async function removeMade(last: string, first: string | undefined): Promise<void> {
  if (first === undefined) return;
  for (let each = last; each.length >= first.length; each = path.dirname(each)) {
    try {
      await rmdir(each);
    } catch {
      return;
    }
  }
}

/** Fills a directory whatever is in it: what has the same name is replaced. */
export async function openPlace(directory: string): Promise<Place> {
  const target = path.resolve(directory);
  const made = make(target);
  return { directory: target, done: async () => {}, giveUp: () => removeMade(target, made) };
}

/** Writes the claim of a job into a directory. False if another command was faster. */
async function writeClaim(directory: string, jobId: string): Promise<boolean> {
  try {
    await writeFile(path.join(directory, claimName), `${jobId}\n`, { flag: 'wx' });
    return true;
  } catch (cause) {
    if (errorCode(cause) !== 'EEXIST') throw cause;
    return claimedBy(directory) === jobId;
  }
}

/**
 * Claims one directory for a job.
 * @returns null if it has other files, or another command fills it
 */
async function claim(directory: string, jobId: string): Promise<Place | null> {
  if (!isFreeFor(directory, jobId)) return null;
  const goesOn = claimedBy(directory) === jobId;
  const made = make(directory);
  if (!(await writeClaim(directory, jobId))) return null;
  const removeClaim = () => rm(path.join(directory, claimName), { force: true }).catch(() => {});
  // Another command may have claimed it, filled it and removed its claim since it was looked at.
  if (!goesOn && hasFiles(directory)) {
    await removeClaim();
    return null;
  }
  return {
    directory,
    done: removeClaim,
    giveUp: async () => {
      if (hasFiles(directory)) return;
      await removeClaim();
      await removeMade(directory, made);
    },
  };
}

/**
 * Claims the directory for a job's result, so that the results of two commands are never mixed. It is called when the result
 * is there, and refuses nothing any more: if the directory has got other files meanwhile, a numbered one beside it is
 * used.
 * @throws the system's error where nothing can be made
 */
export async function claimPlace({ directory, taken }: OutputDirectory, jobId: string): Promise<Place> {
  if (taken === 'replace') {
    // An existing claim is that of a job whose files are replaced now.
    await rm(path.join(directory, claimName), { force: true });
    return (await claim(path.resolve(directory), jobId)) ?? openPlace(directory);
  }
  for (const each of placesOf(directory)) {
    const place = await claim(each, jobId);
    if (place) return place;
  }
  throw noPlace(directory);
}
