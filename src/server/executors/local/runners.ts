import { existsSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { writeJsonFile } from '../../../files/atomic-json.js';
import { isShortage } from '../../../files/error-code.js';
import { isGone } from '../../../files/is-gone.js';
import { lowerPriority } from '../../../runner/priority.js';
import {
  isAlive,
  isDoneWith,
  isSignalable,
  type ProcessIdentity,
  runnerNaming,
  runners,
} from '../../../runner/process-table.js';
import { type RunRequest, runFiles } from '../../../runner/protocol.js';
import { signal, terminateGroup, terminateStrays } from '../../../runner/terminate.js';
import {
  checkRunnerRoom,
  type Ended,
  type Grant,
  isRemoved,
  type JobPlace,
  readRunGpus,
  readRunnerRecord,
  settleRunEnd,
} from '../index.js';
import { type RunnerProcess, type RunnerProgram, startRunner } from './runner-process.js';
import type { Spare } from './spare.js';
import { type SpareSettings, Spares } from './spares.js';

/** Milliseconds between two looks at a runner that an earlier server started. */
const pollInterval = 100;
/** The same for a child. Its end is an event, but its directory may be removed, or a kill may need a second signal. */
const childInterval = 1000;
/** Milliseconds that a runner may take beyond the command's grace before it is killed itself. */
const runnerGrace = 2500;
/**
 * Milliseconds that a runner may take to end once it has written `exit.json`. No process of its job is left by then. Node itself
 * can hang while it exits: https://github.com/nodejs/node/issues/54918.
 */
const leaving = 5000;

export interface RunnerSettings extends RunnerProgram {
  /** Milliseconds between SIGTERM and SIGKILL. */
  readonly killGrace: number;
  /** Runners that are started before there is a job; null for none. */
  readonly spares?: SpareSettings | null;
}

/** A child that has a job. */
interface Working {
  readonly pid: number | undefined;
  /** Resolves when the job is over: whether the runner came to the end of it. */
  readonly over: Promise<boolean>;
}

/** Whether a file is certainly there. Asynchronous for the same reason as `isRemoved`. */
const isCertainlyThere = (file: string): Promise<boolean> =>
  lstat(file).then(
    () => true,
    () => false,
  );

/** Resolves when a runner has ended: whether it came to the end of its job. */
async function hasSucceeded({ process, exited }: RunnerProcess): Promise<boolean> {
  await exited;
  return process.exitCode === 0;
}

/** The runners of this machine. Each is a detached child, identified by its process id and start time. */
export class Runners {
  /** By job directory. */
  readonly #children = new Map<string, Working>();
  /** Directories whose jobs a child has taken to their end, and of which it has left no process. */
  readonly #completed = new Set<string>();
  /** By directory, when a job was asked to end (`performance.now()`). */
  readonly #stopping = new Map<string, number>();

  readonly #spares: Spares | null;

  constructor(private readonly settings: RunnerSettings) {
    this.#spares = settings.spares ? new Spares(settings, settings.spares) : null;
  }

  /** Begins to keep spare runners, if there are to be any. */
  open(): void {
    this.#spares?.open();
  }

  /** Ends the spare runners; those that have a job go on. Resolves when they are gone. */
  async close(): Promise<void> {
    await this.#spares?.close();
  }

  /**
   * Starts a runner on a job directory, or hands it to one that is ready. A second one on the same directory ends without
   * running anything.
   * @throws the system's error if it could not be started
   */
  async launch(directory: string, request: RunRequest): Promise<void> {
    checkRunnerRoom(directory);
    // After a power cut there is no runner to read it.
    writeJsonFile(runFiles(directory).request, request, { isKept: false });
    if (await this.#handOver(directory)) return;
    const runner = await startRunner(this.settings, [directory], directory);
    this.#watch(directory, runner, hasSucceeded(runner));
    lowerPriority(runner.process);
  }

  /**
   * Hands a job to a spare runner.
   * @returns false if it has to be started otherwise: nobody has claimed it
   */
  async #handOver(directory: string): Promise<boolean> {
    const spare = this.#spares?.take(directory);
    if (!spare) return false;
    const isTaken = spare.give(directory, () => !isGone(runFiles(directory).claim));
    this.#watch(directory, spare, this.#untilBack(spare));
    return isTaken;
  }

  /** Knows a child as the runner of a job, until the job is over. */
  #watch(directory: string, { process: { pid } }: RunnerProcess, over: Promise<boolean>): void {
    const working = { pid, over };
    this.#children.set(directory, working);
    void over.then((isComplete) => {
      if (isComplete) this.#completed.add(directory);
      if (this.#children.get(directory) === working) this.#children.delete(directory);
    });
  }

  /** Resolves when the job of a spare runner is over, and takes one back that is ready for another: whether it came to the end of it. */
  async #untilBack(spare: Spare): Promise<boolean> {
    if (!(await spare.isBack())) return hasSucceeded(spare);
    this.#spares?.takeBack(spare);
    return true;
  }

  /**
   * Resolves when neither the runner nor any process of the job is left, even if files of the job are unreadable or were
   * removed meanwhile. Never rejects.
   * @param timeLimit milliseconds from now on after which the job is ended
   */
  async settle({ path: directory, id }: JobPlace, timeLimit: number | null): Promise<Ended> {
    const { workspace, end: endFile } = runFiles(directory);
    const start = performance.now();
    let isLate = false;
    let leavesBy = Number.POSITIVE_INFINITY;
    while (this.isRunning(directory)) {
      isLate ||= timeLimit !== null && performance.now() - start > timeLimit;
      if (isLate || (await isRemoved(directory))) this.stop(directory);
      this.#escalate(directory);
      if (await isCertainlyThere(endFile)) leavesBy = Math.min(leavesBy, performance.now() + leaving);
      if (performance.now() > leavesBy) this.#signal(directory, 'SIGKILL');
      const child = this.#children.get(directory);
      const pause = delay(child ? childInterval : pollInterval, undefined, { ref: false });
      await (child ? Promise.race([child.over, pause]) : pause);
    }
    await this.#endCommand(directory);
    const isWritten = existsSync(endFile);
    // A runner that came to its end has looked thoroughly itself, beside the server instead of within it. A file may be an app's.
    const isSwept = this.#completed.delete(directory) && isWritten;
    if (!isSwept) await terminateStrays(id, workspace, isWritten ? 'output' : 'everything');
    const end = await settleRunEnd(directory, this.#stopping.delete(directory));
    return isLate ? { ...end, fault: 'timeLimit' } : end;
  }

  /** Asks the runner, if there is one, to end its command. A runner that does not is killed. */
  stop(directory: string): void {
    if (!this.#stopping.has(directory)) this.#stopping.set(directory, performance.now());
    this.#escalate(directory);
  }

  /**
   * Whether a runner has ever taken the job; true if that cannot be determined, so that no job is run twice.
   * @param isNew this server has accepted it, so that no earlier one has started it
   */
  hasStarted(directory: string, isNew: boolean): boolean {
    const { claim, record, end } = runFiles(directory);
    if (![claim, record, end].every(isGone)) return true;
    try {
      // The app may have removed these files while the runner still runs. It takes a look at every process of the machine.
      return !isNew && runnerNaming(directory) !== undefined;
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
      // The processes cannot be listed at the moment.
      return [];
    }
  }

  /** GPUs that a run was started with; undefined if that is not known. */
  gpusOf(directory: string): Pick<Grant, 'gpus' | 'gpuUuids'> | undefined {
    try {
      return readRunGpus(directory);
    } catch {
      return undefined;
    }
  }

  /** Whether a runner works on the job; true if that cannot be determined. */
  isRunning(directory: string): boolean {
    if (this.#children.has(directory)) return true;
    try {
      return this.#runner(directory) !== undefined;
    } catch {
      return true;
    }
  }

  /**
   * The running runner of a job: found by its record, or by its arguments if the record cannot be read.
   * @throws the system's error if neither is possible
   */
  #runner(directory: string): ProcessIdentity | undefined {
    const child = this.#children.get(directory)?.pid;
    if (child !== undefined) return { pid: child, startTime: 0, boot: '' };
    let record: ReturnType<typeof readRunnerRecord>;
    try {
      record = readRunnerRecord(directory);
    } catch (cause) {
      if (isShortage(cause)) throw cause;
    }
    const { runner } = record ?? {};
    if (runner) return isAlive(runner) && !isDoneWith(runner.pid, directory) ? runner : undefined;
    return runnerNaming(directory);
  }

  /** Sends the next signal to a runner that was asked to end; also SIGCONT, since a stopped process handles no signals. */
  #escalate(directory: string): void {
    const since = this.#stopping.get(directory);
    if (since === undefined) return;
    const isLate = performance.now() - since > this.settings.killGrace + runnerGrace;
    this.#signal(directory, isLate ? 'SIGKILL' : 'SIGTERM', 'SIGCONT');
  }

  /** Sends signals to the runner of a job, if there is one. */
  #signal(directory: string, ...names: readonly NodeJS.Signals[]): void {
    try {
      const runner = this.#runner(directory);
      if (runner) for (const name of names) signal(runner.pid, name);
    } catch {
      // The process cannot be determined at the moment: tried again at the next look.
    }
  }

  /** Ends the command that a runner left behind when it was killed. */
  async #endCommand(directory: string): Promise<void> {
    try {
      const command = readRunnerRecord(directory)?.command;
      // If the process id belongs to another process by now, the command's group is gone.
      if (!command || (isSignalable(command.pid) && !isAlive(command))) return;
      await terminateGroup(command.pid, this.#stopping.has(directory) ? 0 : this.settings.killGrace);
    } catch {
      // Its remaining processes are found by their environment.
    }
  }
}
