import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstat } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { writeJsonFile } from '../../../files/atomic-json.js';
import { errorCode, isShortage } from '../../../files/error-code.js';
import { isGone } from '../../../files/is-gone.js';
import { lowerPriority } from '../../../runner/priority.js';
import {
  isAlive,
  isSignalable,
  type ProcessIdentity,
  runnerNaming,
  runners,
} from '../../../runner/process-table.js';
import { runnerProgram } from '../../../runner/program.js';
import { type RunRequest, runFiles } from '../../../runner/protocol.js';
import { signal, terminateGroup, terminateStrays } from '../../../runner/terminate.js';
import type { Ended, Grant, JobPlace } from '../executor.js';
import { lacksRoom, settleRunEnd } from './run-end.js';
import { readRunGpus, readRunnerRecord } from './run-files.js';

/** Milliseconds between two looks at a runner that an earlier server started. */
const pollInterval = 100;
/** The same for a child, whose end is heard of: its directory may be removed, or a kill need more than a signal. */
const childInterval = 1000;
/** Milliseconds that a runner may take beyond the command's own grace before it is ended itself. */
const runnerGrace = 2500;

interface Child {
  readonly process: ChildProcess;
  readonly exited: Promise<unknown>;
}

const isThere = (directory: string): Promise<boolean> =>
  lstat(directory).then(
    () => true,
    (cause) => errorCode(cause) !== 'ENOENT',
  );

/**
 * Whether a job's directory was removed, asked while it runs. Where the directory of all jobs is not there either, it is
 * away as a whole (a disk that was unmounted) and may come back. Asynchronous, as a network file system that does not
 * answer must not hold up the server.
 */
const isRemoved = async (directory: string): Promise<boolean> =>
  !(await isThere(directory)) && (await isThere(path.dirname(directory)));

export interface RunnerSettings {
  /** Of the runners, and so of the commands: the server's, less its token variables. */
  readonly environment: NodeJS.ProcessEnv;
  /** Milliseconds between SIGTERM and SIGKILL. */
  readonly killGrace: number;
  /** The runner's file, where it does not lie beside this program. */
  readonly program?: string;
}

/** The runners of this machine: each is a detached child, known by its process id and start time. */
export class Runners {
  readonly #children = new Map<string, Child>();
  /** When each job that was asked to end was so, by directory; `performance.now()`. */
  readonly #stopping = new Map<string, number>();

  constructor(private readonly settings: RunnerSettings) {}

  /**
   * Starts a runner on a job directory. A second one on the same directory ends without having run anything.
   * @throws the system's error where none could be started
   */
  async launch(directory: string, request: RunRequest): Promise<void> {
    if (await lacksRoom(directory)) {
      throw Object.assign(new Error('The disk has no room for a runner'), { code: 'ENOSPC' });
    }
    writeJsonFile(runFiles(directory).request, request);
    const { environment, program = runnerProgram } = this.settings;
    const child = spawn(process.execPath, [program, directory], {
      cwd: directory,
      env: environment,
      stdio: 'ignore',
      detached: true,
    });
    const exited = once(child, 'exit').catch(() => {});
    await once(child, 'spawn');
    void exited.then(() => this.#children.delete(directory));
    this.#children.set(directory, { process: child, exited });
    lowerPriority(child);
    child.unref();
  }

  /**
   * Resolves when neither the runner nor any process of the job is left, and not before, whatever cannot be read or
   * has been removed meanwhile. Never rejects.
   * @param timeLimit milliseconds from now on after which it is ended
   */
  async settle({ path: directory, id }: JobPlace, timeLimit: number | null): Promise<Ended> {
    const start = performance.now();
    let isLate = false;
    while (this.isRunning(directory)) {
      isLate ||= timeLimit !== null && performance.now() - start > timeLimit;
      if (isLate || (await isRemoved(directory))) this.stop(directory);
      this.#escalate(directory);
      const child = this.#children.get(directory);
      const pause = delay(child ? childInterval : pollInterval, undefined, { ref: false });
      await (child ? Promise.race([child.exited, pause]) : pause);
    }
    await this.#endCommand(directory);
    await terminateStrays(id, runFiles(directory).workspace);
    const end = await settleRunEnd(directory, this.#stopping.delete(directory));
    const error = `It was ended at its time limit of ${Number(timeLimit) / 1000} s`;
    return isLate ? { ...end, fault: 'timeLimit', error } : end;
  }

  /** Asks the runner to end its command; one that does not, for whatever reason, is ended. It need not be there. */
  stop(directory: string): void {
    if (!this.#stopping.has(directory)) this.#stopping.set(directory, performance.now());
    this.#escalate(directory);
  }

  /** Whether a runner ever took the job; true where that cannot be told, so that no job is run twice. */
  hasStarted(directory: string): boolean {
    const { claim, record, end } = runFiles(directory);
    if (![claim, record, end].every(isGone)) return true;
    try {
      // Its app may have removed them: the runner itself is there all the same.
      return runnerNaming(directory) !== undefined;
    } catch {
      return true;
    }
  }

  /** Jobs whose runners work in directories directly below this one. */
  below(parent: string): readonly JobPlace[] {
    try {
      const paths = [...runners()].map(({ directory }) => directory);
      const below = [...new Set(paths)].filter((each) => path.dirname(each) === parent);
      return below.map((each) => ({ path: each, id: path.basename(each) }));
    } catch {
      // They cannot be looked for at the moment: then none is found.
      return [];
    }
  }

  /** GPUs that a run was started with; undefined where that is not told. */
  gpusOf(directory: string): Pick<Grant, 'gpus' | 'gpuUuids'> | undefined {
    try {
      return readRunGpus(directory);
    } catch {
      return undefined;
    }
  }

  /** Whether a runner works on the job; true where that cannot be told. */
  isRunning(directory: string): boolean {
    if (this.#children.has(directory)) return true;
    try {
      return this.#runner(directory) !== undefined;
    } catch {
      return true;
    }
  }

  /**
   * The runner of a job, while it runs: by its record, or by its arguments where that cannot be read any more.
   * @throws the system's error where neither can be looked at
   */
  #runner(directory: string): ProcessIdentity | undefined {
    const child = this.#children.get(directory)?.process.pid;
    if (child !== undefined) return { pid: child, startTime: 0, boot: '' };
    let record: ReturnType<typeof readRunnerRecord>;
    try {
      record = readRunnerRecord(directory);
    } catch (cause) {
      if (isShortage(cause)) throw cause;
    }
    if (record) return isAlive(record.runner) ? record.runner : undefined;
    return runnerNaming(directory);
  }

  /** One step towards the end of a job that was asked to end; a stopped process is waked so that it hears of it. */
  #escalate(directory: string): void {
    const since = this.#stopping.get(directory);
    if (since === undefined) return;
    try {
      const runner = this.#runner(directory);
      if (!runner) return;
      const isLate = performance.now() - since > this.settings.killGrace + runnerGrace;
      signal(runner.pid, isLate ? 'SIGKILL' : 'SIGTERM');
      signal(runner.pid, 'SIGCONT');
    } catch {
      // It cannot be told which process it is: at the next look, then.
    }
  }

  /** Ends the command that a runner left behind when it was killed. */
  async #endCommand(directory: string): Promise<void> {
    try {
      const command = readRunnerRecord(directory)?.command;
      // A process id that is another process's by now leads no group of this job's.
      if (!command || (isSignalable(command.pid) && !isAlive(command))) return;
      await terminateGroup(command.pid, this.#stopping.has(directory) ? 0 : this.settings.killGrace);
    } catch {
      // What is left of it is found by its environment.
    }
  }
}
