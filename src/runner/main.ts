/**
 * The runner: runs one job's command beside the server, and outlives it. Started with the job directory as its
 * one argument. It shares nothing with the server but files: `run.json` in, `log` and `exit.json` out.
 */

import { mkdirSync } from 'node:fs';
import { writeJsonFile } from '../files/atomic-json.js';
import { errorCode, faultWithoutPath } from '../files/error-code.js';
import { readOwnFile } from '../files/own-file.js';
import { reserveJsonFile, writeReservedJson } from '../files/reserved-json.js';
import { identify, type ProcessIdentity } from './process-table.js';
import { maxEndBytes, type RunEnd, type RunnerRecord, type RunRequest, runFiles } from './protocol.js';
import { runCommand } from './run-command.js';

/** Longest `run.json`, in bytes: the longest argument list that Linux takes, and room to spare. */
const maxRequestBytes = 64 << 20;

/** Only one runner may ever run a job: whoever makes the directory is it. */
function claim(directory: string): boolean {
  try {
    mkdirSync(directory, { mode: 0o700 });
    return true;
  } catch (cause) {
    if (errorCode(cause) === 'EEXIST') return false;
    throw cause;
  }
}

const stop = new AbortController();
process.on('SIGTERM', () => stop.abort());
process.on('SIGINT', () => stop.abort());
process.on('SIGHUP', () => {});

async function run(directory: string): Promise<void> {
  const files = runFiles(directory);
  const text = readOwnFile(files.request, maxRequestBytes);
  if (text === undefined || !claim(files.claim)) return;
  const request = JSON.parse(text) as RunRequest;
  const runner = identify(process.pid);
  const note = (command: ProcessIdentity | null) =>
    writeJsonFile(files.record, { runner, command } satisfies RunnerRecord);
  note(null);
  reserveJsonFile(files.end, maxEndBytes);
  const end = await runCommand(request, files.log, stop.signal, note).catch(
    (cause: unknown): RunEnd => ({
      exitCode: null,
      signal: null,
      error: `The runner failed: ${faultWithoutPath(cause)}`,
      lostLines: 0,
      endedAt: new Date().toISOString(),
    }),
  );
  writeReservedJson(files.end, end);
}

run(process.argv[2] ?? '.').catch(() => {
  // Without a word in `exit.json` the server sees that the runner has gone: there is nobody else to tell.
  process.exitCode = 1;
});
