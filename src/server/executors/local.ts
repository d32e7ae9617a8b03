import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { statfs } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { writeJsonFile } from '../../files/atomic-json.js';
import { lowerPriority } from '../../runner/priority.js';
import { isAlive } from '../../runner/process-table.js';
import { runnerProgram } from '../../runner/program.js';
import {
  type RunEnd,
  type RunRequest,
  readRunEnd,
  readRunnerRecord,
  readRunRequest,
  runFiles,
} from '../../runner/protocol.js';
import { terminateStrays } from '../../runner/terminate.js';
import type { Executor } from './executor.js';

/** Milliseconds between two looks at a runner that an earlier server started. */
const pollInterval = 100;

/** Bytes without which a runner cannot write what it must. */
const runnerNeeds = 64 * 1024;

async function isDiskFull(directory: string): Promise<boolean> {
  const { bavail, bsize } = await statfs(directory);
  return bavail * bsize < runnerNeeds;
}

/** Runs jobs on this machine: each runner is a detached child, known by its process id and start time. */
export class LocalExecutor implements Executor {
  readonly #children = new Map<string, ChildProcess>();
  /** Directories of the jobs that were asked to end. */
  readonly #stopping = new Set<string>();

  /** @param environment of the runners, and so of the commands: the server's, less its token variables */
  constructor(private readonly environment: NodeJS.ProcessEnv) {}

  async launch(directory: string, request: RunRequest): Promise<void> {
    writeJsonFile(runFiles(directory).request, request);
    const child = spawn(process.execPath, [runnerProgram, directory], {
      cwd: directory,
      env: this.environment,
      stdio: 'ignore',
      detached: true,
    });
    child.once('exit', () => this.#children.delete(directory));
    this.#children.set(directory, child);
    await once(child, 'spawn');
    lowerPriority(child);
    child.unref();
  }

  async wait(directory: string, jobId: string): Promise<RunEnd> {
    for (;;) {
      // A runner that an earlier server launched may take the job only now.
      if (this.#stopping.has(directory)) this.stop(directory);
      const child = this.#children.get(directory);
      const isRunning = child !== undefined || this.#isRunnerAlive(directory);
      const end = readRunEnd(directory);
      if (end && !isRunning) {
        this.#stopping.delete(directory);
        return end;
      }
      if (!isRunning) break;
      await (child
        ? Promise.race([once(child, 'exit'), delay(60_000, undefined, { ref: false })])
        : delay(pollInterval, undefined, { ref: false }));
    }
    this.#stopping.delete(directory);
    await terminateStrays(jobId, readRunRequest(directory)?.directory ?? directory);
    return (
      readRunEnd(directory) ?? {
        exitCode: null,
        signal: null,
        error: (await isDiskFull(directory))
          ? "The runner of this job could not write: the server's disk is full (ENOSPC)"
          : 'The runner of this job was killed; what it had started was ended with it',
        endedAt: new Date().toISOString(),
      }
    );
  }

  stop(directory: string): void {
    this.#stopping.add(directory);
    const record = readRunnerRecord(directory);
    if (record && isAlive(record.runner)) process.kill(record.runner.pid, 'SIGTERM');
    else this.#children.get(directory)?.kill('SIGTERM');
  }

  hasStarted(directory: string): boolean {
    return readRunnerRecord(directory) !== undefined || readRunEnd(directory) !== undefined;
  }

  #isRunnerAlive(directory: string): boolean {
    const record = readRunnerRecord(directory);
    return record !== undefined && isAlive(record.runner);
  }
}
