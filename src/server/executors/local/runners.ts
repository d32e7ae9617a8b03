import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isGone, isShortage, isSignalable, orElse, writeJsonFile } from '../../../files/index.js';
import {
  isAlive,
  lowerPriority,
  type ProcessIdentity,
  type RunRequest,
  runFiles,
  runnerIn,
  runnerProgram,
  runners,
  signal,
  terminateGroup,
  terminateStrays,
} from '../../../runner/index.js';
import {
  checkRunnerRoom,
  type Ended,
  endOfRun,
  type Grant,
  isRemoved,
  type JobRef,
  readRunGpus,
  readRunnerRecord,
} from '../index.js';

/** Milliseconds between two checks of a runner that an earlier server started. */
const pollInterval = 100;
/**
 * Milliseconds between two checks of a child. Its exit is an event, but its directory may be removed, or a kill may need a second
 * signal.
 */
const childInterval = 1000;
/**
 * Milliseconds that a runner may take beyond the command's grace period before the runner is killed, without recording an end. On
 * a busy machine it needs seconds, because its priority is low; a stopping server has ten seconds in total.
 */
const runnerGrace = 5000;
/**
 * Milliseconds that a runner may take to exit after it has written `exit.json`. No process of its job is left by then.
 * Node itself can hang while it exits: https://github.com/nodejs/node/issues/54918.
 */
const exitPatience = 5000;

export interface RunnerSettings {
  /** The environment of runners and commands: the server's, without its token variables. */
  readonly environment: NodeJS.ProcessEnv;
  /** The runner's program; by default the one beside this program. */
  readonly program?: string;
  /** Milliseconds between SIGTERM and SIGKILL. */
  readonly killGrace: number;
}

/** A runner that this server started. */
interface RunnerProcess {
  readonly process: ChildProcess;
  readonly exited: Promise<unknown>;
}

/** Whether a file certainly exists. Asynchronous for the same reason as `isRemoved`. */
const isCertainlyThere = (file: string): Promise<boolean> =>
  lstat(file).then(
    () => true,
    () => false,
  );

/** The runners of this machine. Each is a detached child, identified by its process id and start time. */
export class Runners {
  /** Keyed by job directory. */
  readonly #children = new Map<string, RunnerProcess>();
  /** Directories of jobs that a child of this server has run to the end, with no process left. */
  readonly #completed = new Set<string>();
  /** When each job was asked to end, by directory (`performance.now()`). */
  readonly #stopping = new Map<string, number>();

  constructor(private readonly settings: RunnerSettings) {}

  /**
   * Starts a runner on a job directory. A second runner on the same directory ends at once.
   * @throws the system's error if it could not be started
   */
  async launch(directory: string, request: RunRequest): Promise<void> {
    checkRunnerRoom(directory);
    // Not synced, because after a power cut there is no runner to read it.
    writeJsonFile(runFiles(directory).request, request, { isKept: false });
    const { environment, program = runnerProgram } = this.settings;
    const child = spawn(process.execPath, [program, directory], {
      cwd: directory,
      env: environment,
      stdio: 'ignore',
      detached: true,
    });
    const exited = once(child, 'exit').catch(() => {});
    await once(child, 'spawn');
    child.unref();
    lowerPriority(child);
    const runner = { process: child, exited };
    this.#children.set(directory, runner);
    void exited.then(() => {
      if (child.exitCode === 0) this.#completed.add(directory);
      if (this.#children.get(directory) === runner) this.#children.delete(directory);
    });
  }

  /**
   * Resolves when neither the runner nor any process of the job is left, even if files of the job are unreadable or were removed
   * meanwhile. Never rejects.
   * @param timeLimit milliseconds from now after which the job is ended; null for no limit
   */
  async untilEnded({ path: directory, id }: JobRef, timeLimit: number | null): Promise<Ended> {
    const { workspace, end: endFile } = runFiles(directory);
    const start = performance.now();
    let isLate = false;
    let exitsBy = Number.POSITIVE_INFINITY;
    while (this.isRunning(directory)) {
      isLate ||= timeLimit !== null && performance.now() - start > timeLimit;
      if (isLate || (await isRemoved(directory))) this.stop(directory);
      this.#escalate(directory);
      if (await isCertainlyThere(endFile)) exitsBy = Math.min(exitsBy, performance.now() + exitPatience);
      if (performance.now() > exitsBy) this.#signal(directory, 'SIGKILL');
      const child = this.#children.get(directory);
      const pause = delay(child ? childInterval : pollInterval, undefined, { ref: false });
      await (child ? Promise.race([child.exited, pause]) : pause);
    }
    await this.#endCommand(directory);
    const isWritten = existsSync(endFile);
    // A runner that finished has ended its job's processes itself. `exit.json` by itself proves nothing: an app may have written
    // it.
    const isClean = this.#completed.delete(directory) && isWritten;
    if (!isClean) await terminateStrays(id, workspace);
    const end = await endOfRun(directory, this.#stopping.delete(directory));
    return isLate ? { ...end, fault: 'timeLimit' } : end;
  }

  /** Asks the runner, if there is one, to end its command, and kills a runner that does not comply. */
  stop(directory: string): void {
    if (!this.#stopping.has(directory)) this.#stopping.set(directory, performance.now());
    this.#escalate(directory);
  }

  /**
   * Whether a runner has ever taken the job; true if that cannot be determined, so that no job is run twice.
   * @param isNew whether this server accepted the job, so that no earlier server has started it
   */
  hasStarted(directory: string, isNew: boolean): boolean {
    const { claim, record, end } = runFiles(directory);
    if (![claim, record, end].every(isGone)) return true;
    // The app may have removed these files while the runner is still running. This examines every process of the machine.
    return orElse(() => !isNew && runnerIn(directory) !== undefined, true);
  }

  /** Jobs whose runners work in directories directly below this one. */
  below(parent: string): readonly JobRef[] {
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
    return orElse(() => readRunGpus(directory), undefined);
  }

  /** Whether a runner works on the job; true if that cannot be determined. */
  isRunning(directory: string): boolean {
    if (this.#children.has(directory)) return true;
    return orElse(() => this.#runner(directory) !== undefined, true);
  }

  /**
   * The runner process of a job, found by its record, or by its working directory if the record cannot be read.
   * @throws the system's error if neither is possible
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
    const { runner } = record ?? {};
    if (runner) return isAlive(runner) ? runner : undefined;
    return runnerIn(directory);
  }

  /**
   * Sends the next signal to a runner that was asked to end; also SIGCONT, because a stopped process handles no signals.
   */
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
      // The process cannot be determined at the moment; the next check tries again.
    }
  }

  /** Ends the command of a killed runner. */
  async #endCommand(directory: string): Promise<void> {
    try {
      const command = readRunnerRecord(directory)?.command;
      // If the process id now belongs to another process, the command's group is gone.
      if (!command || (isSignalable(command.pid) && !isAlive(command))) return;
      await terminateGroup(command.pid, this.#stopping.has(directory) ? 0 : this.settings.killGrace);
    } catch {
      // Its remaining processes are found by their environment.
    }
  }
}
