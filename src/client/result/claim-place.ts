import { existsSync } from 'node:fs';
import { rmdir } from 'node:fs/promises';
import path from 'node:path';
import { makeDirectory } from '../../files/make-directory.js';
import { Claim } from './claim.js';
import { claimedBy, hasFiles, isFreeFor, noPlace, type OutputDirectory, placesOf } from './destination.js';

/** A directory that is being filled. */
export interface Place {
  /** Absolute. */
  readonly directory: string;
  /** Whether certainly no other command fills it as well. */
  readonly isHeld: boolean;
  /** Whether files that are there may be replaced: they are of an earlier attempt, or may go. */
  readonly mayReplace: boolean;
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

/** Fills a directory whatever is in it. */
export async function openPlace(directory: string, mayReplace: boolean): Promise<Place> {
  const target = path.resolve(directory);
  const made = make(target);
  return {
    directory: target,
    isHeld: false,
    mayReplace,
    done: async () => {},
    giveUp: () => removeMade(target, made),
  };
}

/**
 * Claims one directory for a job.
 * @param isReplaced whether other files that it has may be replaced
 * @returns null if it has other files that may not be, or another command fills it
 */
async function claim(directory: string, jobId: string, isReplaced: boolean): Promise<Place | null> {
  if (!isReplaced && !isFreeFor(directory, jobId)) return null;
  const goesOn = claimedBy(directory) === jobId;
  const made = make(directory);
  const taken = await Claim.take(directory, jobId, isReplaced);
  if (!taken) return null;
  const hasOthers = !goesOn && hasFiles(directory);
  // Another command may have claimed it, filled it and removed its claim since it was looked at.
  if (hasOthers && !isReplaced) {
    await taken.remove();
    return null;
  }
  return {
    directory,
    isHeld: taken.isLocked,
    mayReplace: isReplaced || goesOn,
    done: () => taken.remove(),
    giveUp: async () => {
      if (!hasOthers && hasFiles(directory)) {
        taken.leave();
        return;
      }
      await taken.remove();
      await removeMade(directory, made);
    },
  };
}

/**
 * Claims the directory for a job's result, so that the results of two commands are never mixed. It is called when the result
 * is there, and refuses nothing any more: if the directory has got other files meanwhile, or is being filled by another
 * command, a numbered one beside it is used.
 * @throws the system's error where nothing can be made
 */
export async function claimPlace({ directory, taken }: OutputDirectory, jobId: string): Promise<Place> {
  const wanted = path.resolve(directory);
  for (const each of placesOf(directory)) {
    const place = await claim(each, jobId, taken === 'replace' && each === wanted);
    if (place) return place;
  }
  throw noPlace(directory);
}
