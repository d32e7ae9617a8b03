import { readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import type { Writable } from 'node:stream';
import { quoteName, quotePath } from '../../contract/quote.js';
import { shellWord } from '../../contract/shell-word.js';
import { readSmallFile } from '../../files/small-file.js';
import { pathJobId } from '../connection/identifiers.js';
import { claimName, numberedPlace } from '../earlier-results.js';
import { UsageError } from '../errors.js';
import { nextCommand } from '../next-command.js';

/** A directory that a result is to be saved in. */
export interface OutputDirectory {
  /** As a person wrote it. */
  readonly directory: string;
  /** What to do where it has other files: take a numbered directory beside it, refuse, or write into it all the same. */
  readonly taken: 'number' | 'refuse' | 'replace';
}

/** Where a result goes: into a directory, or as a zip to a stream. */
export type Destination = OutputDirectory | { readonly stream: Writable };

/** Files of version control, of file managers, of file systems and of `check-output`, which are no results. */
const ofNobody =
  /^(?:\.git(?:keep|ignore)|\.remote-app-\w{6}|\.DS_Store|\._.*|\.nfs.*|Thumbs\.db|desktop\.ini|lost\+found)$/;

/** How far places are counted. */
const lastPlace = 100_000;

/** The job that a directory is being filled for; null if for none, or if that cannot be read. */
export function claimedBy(directory: string): string | null {
  try {
    return readSmallFile(path.join(directory, claimName)).trim();
  } catch {
    return null;
  }
}

/**
 * Whether there is anything at a path that a result could replace or be mixed with. The claim of a job does not count. A
 * directory that cannot be read may have files.
 */
export function hasFiles(directory: string): boolean {
  try {
    return readdirSync(directory).some((name) => name !== claimName && !ofNobody.test(name));
  } catch {
    return statSync(directory, { throwIfNoEntry: false }) !== undefined;
  }
}

/**
 * Whether the result of a job can go to a directory: it is not there or empty, or an earlier attempt to fetch the same
 * result was broken off in it.
 */
export function isFreeFor(directory: string, jobId: string | null): boolean {
  const owner = claimedBy(directory);
  if (owner !== null) return owner === jobId;
  return !hasFiles(directory);
}

/** The places for a result in the order in which they are tried: `Output`, `Output-2`, `Output-3`. */
export function* placesOf(directory: string): Generator<string> {
  const target = path.resolve(directory);
  for (let number = 1; number <= lastPlace; number += 1) yield numberedPlace(target, number);
}

/** The error where all places are taken. */
export const noPlace = (directory: string): UsageError =>
  new UsageError(`${quotePath(directory)} and all up to '-${lastPlace}' have results; remove some of them`);

/** The command that completes a result that was broken off. The id comes from a file. */
const completing = (owner: string, directory: string): string =>
  `'${nextCommand(pathJobId.test(owner) ? `result ${owner} -o ${shellWord(directory)}` : 'result')}'`;

/**
 * The directory that a result would go to if it came now. Asked before anything is sent, so that no job ends in a refusal.
 * @param jobId of the job, if there is one already
 * @throws UsageError for a directory with other files, where these may not be replaced
 */
export function foreseePlace({ directory, taken }: OutputDirectory, jobId: string | null): string {
  const target = path.resolve(directory);
  if (taken === 'replace' || isFreeFor(target, jobId)) return target;
  if (taken === 'number') {
    for (const place of placesOf(directory)) if (isFreeFor(place, jobId)) return place;
    throw noPlace(directory);
  }
  const owner = claimedBy(target);
  const what =
    owner === null
      ? 'has files already, which the result could replace'
      : `has a part of the result of job ${quoteName(owner)}: another command saves it now, or ${completing(owner, directory)} completes it`;
  throw new UsageError(
    `${quotePath(directory)} ${what}; name another directory with --output, or write into this one with --force`,
  );
}
