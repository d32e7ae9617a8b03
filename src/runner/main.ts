/**
 * The runner: runs one job's command beside the server, and outlives it. Started with the job directory as its
 * one argument, or as a spare one that is told the directory later. From then on it shares nothing with the server but
 * files: `run.json` in, `log` and `exit.json` out.
 */

import { mkdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { writeJsonFile } from '../files/atomic-json.js';
import { errorCode, faultWithoutPath, isDiskFull } from '../files/error-code.js';
import { closeInherited, readOwnFile } from '../files/own-file.js';
import { reserveJsonFile, writeReservedJson } from '../files/reserved-json.js';
import { identify, type ProcessIdentity } from './process-table.js';
import { maxEndBytes, type RunEnd, type RunnerRecord, type RunRequest, runFiles } from './protocol.js';
import { runCommand } from './run-command.js';
import { sendToKeeper } from './run-in-worker.js';
import { HandedJobs, type HandedOver } from './spare.js';
import { spareArgument } from './spare-protocol.js';

/** Longest `run.json`, in bytes: the longest argument list that Linux takes, and room to spare. */
const maxRequestBytes = 64 << 20;

/** Only one runner may ever run a job: the one that makes this directory. */
function claim(directory: string): boolean {
  try {
    mkdirSync(directory, { mode: 0o700 });
    return true;
  } catch (cause) {
    if (errorCode(cause) === 'EEXIST') return false;
    throw cause;
  }
}

closeInherited();
const stop = new AbortController();
process.on('SIGTERM', () => stop.abort());
process.on('SIGINT', () => stop.abort());
process.on('SIGHUP', () => {});

/** The exit code of a runner that has run no job: it has none, or another one has claimed it. */
const notRun = 3;

/**
 * Runs a job, unless another runner has claimed it.
 * @param handed how the job came to a spare runner
 * @returns whether it has run it
 */
async function run(directory: string, handed?: HandedOver): Promise<boolean> {
  const files = runFiles(directory);
  const text = readOwnFile(files.request, maxRequestBytes);
  if (text === undefined || !claim(files.claim)) return false;
  handed?.tellTaken();
  const request = JSON.parse(text) as RunRequest;
  // The worker begins while the files below are written. If this process is killed before, the keeper ends the job.
  const keeper = await sendToKeeper(request);
  const runner = identify(process.pid);
  const note = (command: ProcessIdentity | null) =>
    // After a power cut neither is there.
    writeJsonFile(files.record, { runner, command } satisfies RunnerRecord, { isKept: false });
  asFarAsPossible(() => note(null));
  asFarAsPossible(() => reserveJsonFile(files.end, maxEndBytes));
  const prepared = { keeper, fifo: handed?.fifo };
  const end = await runCommand(request, files.log, stop.signal, note, prepared).catch(
    (cause: unknown): RunEnd => ({
      exitCode: null,
      signal: null,
      error: `The runner failed: ${faultWithoutPath(cause)}`,
      fault: isDiskFull(cause) ? 'diskFull' : null,
      lostLines: 0,
      wasAlone: false,
      endedAt: new Date().toISOString(),
    }),
  );
  // A command that failed before it was given to the keeper has left it open, and this process would not end.
  keeper?.destroy();
  await writeEnd(files.end, end);
  return true;
}

/** Ignores errors: without its record the runner is found by its arguments, and a reserve is needed on a full disk alone. */
function asFarAsPossible(action: () => void): void {
  try {
    action();
  } catch {}
}

/** How often writing the end is tried, and milliseconds between two tries. */
const attempts = 20;
const pause = 500;

/**
 * Writes how the command ended: into the reserved room or, if the job has removed or replaced that, into a new file.
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

/**
 * Runs the jobs that the server hands over.
 * @returns whether it has run the last one; false if it ends while it waits for one
 */
async function runHanded(): Promise<boolean> {
  const jobs = new HandedJobs(stop.signal);
  try {
    for (let job = await jobs.next(); job; job = await jobs.next()) {
      const hasRun = await run(job.directory, job);
      if (!hasRun || !jobs.offer()) return hasRun;
    }
    return false;
  } finally {
    jobs.leave();
  }
}

const [, , directory = '.'] = process.argv;
(directory === spareArgument ? runHanded() : run(directory)).then(
  (hasRun) => {
    if (!hasRun) process.exitCode = notRun;
  },
  () => {
    // The error cannot be reported: the server sees that the runner has ended without an `exit.json`.
    process.exitCode = 1;
  },
);
