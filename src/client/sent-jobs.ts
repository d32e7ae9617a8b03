import { readdirSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { makeDirectory, readSmallFile, writeJsonFile } from '../files/index.js';

/**
 * A part of what is saved about a job: the command that sent it, facts about its inputs for the record of its result, or the
 * original names of its inputs.
 */
type Part = 'command' | 'inputs' | 'names';

/** Maximum number of remembered jobs. Older ones are forgotten. */
export const maxSentJobs = 200;

/** The directory for files named after a job's id: `sent/ID.command.json`. */
const directoryIn = (configDir: string): string => path.join(configDir, 'sent');

/** The file with one part of what is saved about a job. */
export const sentJobFile = (configDir: string, jobId: string, part: Part): string =>
  path.join(directoryIn(configDir), `${jobId}.${part}.json`);

/** The files in a directory, newest first, each with the id of its job. */
function newestFirst(directory: string): { readonly file: string; readonly jobId: string }[] {
  return readdirSync(directory)
    .flatMap((name) => {
      const file = path.join(directory, name);
      const time = statSync(file, { throwIfNoEntry: false })?.mtimeMs;
      return time === undefined ? [] : [{ file, jobId: name.split('.')[0] ?? '', time }];
    })
    .sort((a, b) => b.time - a.time);
}

/**
 * Saves a part about a job that was sent, readable only by this user, and removes the files of older jobs. Never throws: an
 * unwritable home directory must not make a submission fail.
 */
export function keepSentJob(configDir: string, jobId: string, part: Part, value: unknown): void {
  try {
    const directory = directoryIn(configDir);
    makeDirectory(directory, 0o700);
    writeJsonFile(sentJobFile(configDir, jobId, part), value, { isKept: false });
    const files = newestFirst(directory);
    const kept = new Set([...new Set(files.map((each) => each.jobId))].slice(0, maxSentJobs));
    for (const each of files) if (!kept.has(each.jobId)) rmSync(each.file, { force: true });
  } catch {
    // A submission must not fail because of this.
  }
}

/** @throws the system's error, or SyntaxError for a file that is damaged */
export const readSentJob = (configDir: string, jobId: string, part: Part, maxBytes: number): unknown =>
  JSON.parse(readSmallFile(sentJobFile(configDir, jobId, part), maxBytes));

/** Deletes one part of what is saved about a job. Never throws. */
export function forgetSentJob(configDir: string, jobId: string, part: Part): void {
  try {
    rmSync(sentJobFile(configDir, jobId, part), { force: true });
  } catch {
    // The file is removed later, when newer jobs take its place.
  }
}

/** The ids of jobs whose command is saved, newest first. @throws the system's error */
export const commandsNewestFirst = (configDir: string): string[] =>
  newestFirst(directoryIn(configDir)).flatMap(({ file, jobId }) =>
    file === sentJobFile(configDir, jobId, 'command') ? [jobId] : [],
  );
