/**
 * The runner: runs one job's command as a process separate from the server, and outlives the server. Its only argument is the job
 * directory. It shares nothing with the server except files: it reads `run.json`, and writes `log` and `exit.json`.
 */

import { mkdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { errorCode, faultWithoutPath, isDiskFull } from '../files/errors.js';
import { closeInherited, readOwnFile } from '../files/own-file.js';
import { reserveJsonFile, writeJsonFile, writeReservedJson } from '../files/whole-file.js';
import { identify } from './process-table.js';
import {
  maxEndBytes,
  type ProcessIdentity,
  type RunEnd,
  type RunnerRecord,
  type RunRequest,
  runFiles,
  unknownUsage,
} from './protocol.js';
import { runCommand } from './run-command.js';

/** Maximum size in bytes of `run.json`: the longest argument list that Linux takes, and more. */
const maxRequestBytes = 64 << 20;

/** Exit code of a runner that ran no job, because there was none or another runner had claimed it. */
const notRun = 3;

/** Number of attempts to write `exit.json`, and milliseconds between them. */
const attempts = 20;
const pause = 500;

closeInherited();
const stop = new AbortController();
process.on('SIGTERM', () => stop.abort());
process.on('SIGINT', () => stop.abort());
process.on('SIGHUP', () => {});

/** Claims a job by creating this directory: only one runner can create it, so only one ever runs the job. */
function claim(directory: string): boolean {
  try {
    mkdirSync(directory, { mode: 0o700 });
    return true;
  } catch (cause) {
    if (errorCode(cause) === 'EEXIST') return false;
    throw cause;
  }
}

/**
 * Runs a job, unless another runner has claimed it.
 * @returns whether this runner ran it
 */
async function run(directory: string): Promise<boolean> {
  const files = runFiles(directory);
  const text = readOwnFile(files.request, maxRequestBytes);
  if (text === undefined || !claim(files.claim)) return false;
  const request = JSON.parse(text) as RunRequest;
  const runner = identify(process.pid);
  const note = (command: ProcessIdentity | null) =>
    // The record need not survive a power cut, after which neither process exists any more.
    writeJsonFile(files.record, { runner, command } satisfies RunnerRecord, { isKept: false });
  ignoreErrors(() => note(null));
  ignoreErrors(() => reserveJsonFile(files.end, maxEndBytes));
  const end = await runCommand(request, files.log, stop.signal, note).catch(
    (cause: unknown): RunEnd => ({
      exitCode: null,
      signal: null,
      error: `The runner failed: ${faultWithoutPath(cause)}`,
      fault: isDiskFull(cause) ? 'diskFull' : null,
      lostLines: 0,
      wasAlone: false,
      ...unknownUsage,
      endedAt: new Date().toISOString(),
    }),
  );
  await writeEnd(files.end, end);
  return true;
}

/**
 * Ignores errors of two steps that a job can do without: if the record is missing, the runner is found by its working directory,
 * and space is reserved only in case the disk fills up.
 */
function ignoreErrors(action: () => void): void {
  try {
    action();
  } catch {}
}

/**
 * Writes how the command ended, into the reserved file or, if the job removed or replaced that file, into a new one. Retries
 * while the disk fails.
 * @throws the system's error if all attempts fail
 */
async function writeEnd(file: string, end: RunEnd): Promise<void> {
  for (let left = attempts; ; left -= 1) {
    try {
      writeReservedJson(file, end);
      return;
    } catch {
      try {
        writeJsonFile(file, end);
        return;
      } catch (cause) {
        // If the job's directory is gone, nobody needs the end.
        if (left === 0 || errorCode(cause) === 'ENOENT') throw cause;
        await delay(pause);
      }
    }
  }
}

const [, , directory = '.'] = process.argv;
run(directory).then(
  (hasRun) => {
    if (!hasRun) process.exitCode = notRun;
  },
  () => {
    // The error cannot be reported. The server sees that the runner ended without an `exit.json`.
    process.exitCode = 1;
  },
);
