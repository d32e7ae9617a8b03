import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { isGone } from '../../../files/index.js';
import {
  lowerNiceness,
  lowerPriority,
  runFiles,
  runnerProgram,
  spareArgument,
  spareChannel,
} from '../../../runner/index.js';

/** Milliseconds that a spare runner may take to claim a job. */
const sparePatience = 2000;
/** Milliseconds from the last start of a job until a spare runner is started, so that the job goes first. */
const quiet = 60;
/** The same after the start of the server, which may be stopped again soon. */
const firstQuiet = 500;
/** Milliseconds to wait if a spare runner could not be started, or ended without a job. */
const failurePause = 2000;

/** How runners are started. */
export interface RunnerProgram {
  /** The environment of runners and commands: the server's, without its token variables. */
  readonly environment: NodeJS.ProcessEnv;
  /** The runner's program; by default the one beside this program. */
  readonly program?: string;
}

/** A runner of this server. */
export interface RunnerProcess {
  readonly process: ChildProcess;
  readonly exited: Promise<unknown>;
}

async function start(
  { environment, program = runnerProgram }: RunnerProgram,
  argument: string,
  cwd: string,
  channel: readonly 'pipe'[] = [],
): Promise<RunnerProcess> {
  const child = spawn(process.execPath, [program, argument], {
    cwd,
    env: environment,
    stdio: ['ignore', 'ignore', 'ignore', ...channel],
    detached: true,
  });
  const exited = once(child, 'exit').catch(() => {});
  await once(child, 'spawn');
  child.unref();
  return { process: child, exited };
}

/** Starts a runner for a job. @throws the system's error if it could not be started */
export async function startRunner(program: RunnerProgram, directory: string): Promise<RunnerProcess> {
  const runner = await start(program, directory, directory);
  lowerPriority(runner.process);
  return runner;
}

/** A runner that is started in advance, before there is a job for it. Without a job it ends with its server. */
export class SpareRunner implements RunnerProcess {
  readonly process: ChildProcess;
  readonly exited: Promise<unknown>;
  readonly #channel: Socket;
  readonly #closed: Promise<unknown>;

  private constructor(runner: RunnerProcess) {
    this.process = runner.process;
    this.exited = runner.exited;
    this.#channel = runner.process.stdio[spareChannel] as Socket;
    this.#closed = new Promise((resolve) => this.#channel.once('close', resolve));
    this.#channel.on('error', () => {});
    this.#channel.resume();
    this.#channel.unref();
  }

  /** @throws the system's error if it could not be started */
  static async start(program: RunnerProgram): Promise<SpareRunner> {
    // It may wait for days, and must not keep a file system from being unmounted.
    const runner = await start(program, spareArgument, '/', ['pipe']);
    lowerNiceness(runner.process);
    return new SpareRunner(runner);
  }

  /**
   * Hands it a job.
   * @returns whether the job is claimed; if not, the runner is gone and can no longer claim it
   */
  async give(directory: string): Promise<boolean> {
    const isClaimed = () => !isGone(runFiles(directory).claim);
    // Only now, so that the job starts quickly even on a busy machine.
    lowerPriority(this.process);
    this.#channel.write(`${directory}\n`);
    await Promise.race([this.#closed, delay(sparePatience, undefined, { ref: false })]);
    if (isClaimed()) return true;
    await this.kill();
    // If it claimed the job just before, the job is lost with it, as with any killed runner.
    return isClaimed();
  }

  /** Kills it: without a job it has nothing to lose. Resolves when it is gone. */
  async kill(): Promise<void> {
    // Otherwise a stopping server would have nothing left to wait for.
    this.process.ref();
    this.process.kill('SIGKILL');
    await this.exited;
  }
}

/** A fixed number of spare runners: starting a runner takes longer than the rest of a job's start. */
export class SpareRunners {
  readonly #ready = new Set<SpareRunner>();
  /** The most recent start. */
  #starting: Promise<void> = Promise.resolve();
  #isClosed = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly program: RunnerProgram,
    private readonly count: number,
  ) {}

  /** Begins to start them. */
  open(): void {
    this.#refill(firstQuiet);
  }

  /** Takes one, which is soon replaced by another; undefined if none is ready. */
  take(): SpareRunner | undefined {
    this.#refill(quiet);
    const [spare] = this.#ready;
    if (spare) this.#ready.delete(spare);
    return spare;
  }

  /** Ends all of them. Resolves when they are gone. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#starting;
    await Promise.all([...this.#ready].map((spare) => spare.kill()));
  }

  /** Starts the missing ones after a while. */
  #refill(pause: number): void {
    clearTimeout(this.#timer);
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => {
      // One after the other, because each takes processor time from the jobs.
      this.#starting = this.#starting.then(() => this.#start());
    }, pause).unref();
  }

  async #start(): Promise<void> {
    if (this.#isClosed || this.#ready.size >= this.count) return;
    try {
      const spare = await SpareRunner.start(this.program);
      this.#ready.add(spare);
      void spare.exited.then(() => {
        // Otherwise it has run a job.
        if (this.#ready.delete(spare)) this.#refill(failurePause);
      });
      this.#refill(quiet);
    } catch {
      // Jobs start without a spare.
      this.#refill(failurePause);
    }
  }
}
