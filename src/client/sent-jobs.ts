import { readdirSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { makeDirectory, readSmallFile, writeJsonFile } from '../files/index.js';

/** The command that sent a job, the facts about its inputs for the record of its result, or the original names of its inputs. */
type Part = 'command' | 'inputs' | 'names';

/** How many jobs are remembered. Older ones are forgotten. */
export const maxSentJobs = 200;

/** Files whose names have the job's id: `sent/ID.command.json`. */
const directoryIn = (configDir: string): string => path.join(configDir, 'sent');

/** The file that holds a part of what is remembered of a job. */
export const sentJobFile = (configDir: string, jobId: string, part: Part): string =>
  path.join(directoryIn(configDir), `${jobId}.${part}.json`);

/** The files of a directory, newest first, with the ids of their jobs. */
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
 * Keeps a part of a job that was sent, readable by its user alone, and removes what is kept of older jobs. Never throws: a home
 * directory that cannot be written must not make a submission fail.
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
    // See above.
  }
}

/** @throws the system's error, or SyntaxError for a file that is damaged */
export const readSentJob = (configDir: string, jobId: string, part: Part, maxBytes: number): unknown =>
  JSON.parse(readSmallFile(sentJobFile(configDir, jobId, part), maxBytes));

/** Forgets a part of a job. Never throws. */
export function forgetSentJob(configDir: string, jobId: string, part: Part): void {
  try {
    rmSync(sentJobFile(configDir, jobId, part), { force: true });
  } catch {
    // It is removed when newer jobs take its place.
  }
}

/** The ids of the jobs whose command is kept, newest first. @throws the system's error */
export const commandsNewestFirst = (configDir: string): string[] =>
  newestFirst(directoryIn(configDir)).flatMap(({ file, jobId }) =>
    file === sentJobFile(configDir, jobId, 'command') ? [jobId] : [],
  );
