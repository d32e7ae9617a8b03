/**
 * The runner: runs one job's command beside the server, and outlives it. Started with the job directory as its
 * one argument. It shares nothing with the server but files: `run.json` in, `log` and `exit.json` out.
 */

import { linkSync, rmSync, writeFileSync } from 'node:fs';
import { reserveJsonFile } from '../files/atomic-json.js';
import { errorCode } from '../files/error-code.js';
import { identify } from './process-table.js';
import { type RunEnd, type RunnerRecord, readRunRequest, runFiles } from './protocol.js';
import { runCommand } from './run-command.js';

/** Only one runner may ever run a job: whoever links the record first is it, and the record is whole at once. */
function claim(path: string): boolean {
  const record: RunnerRecord = { runner: identify(process.pid) };
  const own = `${path}.${process.pid}`;
  try {
    writeFileSync(own, JSON.stringify(record), { mode: 0o600 });
    linkSync(own, path);
    return true;
  } catch (cause) {
    if (errorCode(cause) === 'EEXIST') return false;
    throw cause;
  } finally {
    rmSync(own, { force: true });
  }
}

const stop = new AbortController();
process.on('SIGTERM', () => stop.abort());
process.on('SIGINT', () => stop.abort());
process.on('SIGHUP', () => {});

async function run(directory: string): Promise<void> {
  const files = runFiles(directory);
  const request = readRunRequest(directory);
  if (request === undefined || !claim(files.record)) return;
  const writeEnd = reserveJsonFile(files.end);
  const end = await runCommand(request, files.log, stop.signal).catch(
    (cause: Error): RunEnd => ({
      exitCode: null,
      signal: null,
      error: `The runner failed: ${cause.message}`,
      endedAt: new Date().toISOString(),
    }),
  );
  writeEnd(end);
}

void run(process.argv[2] ?? '.');
