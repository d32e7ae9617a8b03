/**
 * The runner: runs one job's command beside the server, and outlives it. Started with the job directory as its one argument.
 * It shares nothing with the server but files: `run.json` in, `log` and `exit.json` out.
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

/** The exit code of a runner that ran no job: there was none, or another runner claimed it. */
const notRun = 3;

/** How often writing `exit.json` is tried, and milliseconds between two attempts. */
const attempts = 20;
const pause = 500;

closeInherited();
const stop = new AbortController();
process.on('SIGTERM', () => stop.abort());
process.on('SIGINT', () => stop.abort());
process.on('SIGHUP', () => {});

/** Only one runner may ever run a job: the one that creates this directory. */
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
 * @returns whether it has run it
 */
async function run(directory: string): Promise<boolean> {
  const files = runFiles(directory);
  const text = readOwnFile(files.request, maxRequestBytes);
  if (text === undefined || !claim(files.claim)) return false;
  const request = JSON.parse(text) as RunRequest;
  const runner = identify(process.pid);
  const note = (command: ProcessIdentity | null) =>
    // After a power cut, neither process exists any more.
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
 * Without its record, the runner is found by its working directory; and space is reserved only in case the disk fills up.
 */
function ignoreErrors(action: () => void): void {
  try {
    action();
  } catch {}
}

/**
 * Writes how the command ended: into the reserved file or, if the job has removed or replaced that, into a new one.
 * Retries while the disk fails.
 * @throws the system's error if it cannot be written
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
    // The error cannot be reported: the server sees that the runner has ended without an `exit.json`.
    process.exitCode = 1;
  },
);
