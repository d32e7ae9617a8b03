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
/** Milliseconds after the last start of a job until a spare runner is started: the job goes first. */
const quiet = 60;
/** The same after the start of the server, which may be stopped again soon. */
const firstQuiet = 500;
/** Milliseconds until the next one is started where one could not be started, or has ended without a job. */
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

/** A runner that was started before there is a job for it, and is used for one. Without a job it ends with its server. */
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
   * @returns whether the job is claimed. If it is not, the runner is gone, and cannot claim it any more
   */
  async give(directory: string): Promise<boolean> {
    const isClaimed = () => !isGone(runFiles(directory).claim);
    // Only now, so that the job starts quickly on a busy machine.
    lowerPriority(this.process);
    this.#channel.write(`${directory}\n`);
    await Promise.race([this.#closed, delay(sparePatience, undefined, { ref: false })]);
    if (isClaimed()) return true;
    await this.kill();
    // One that has claimed it just before is lost with it, like any runner that is killed.
    return isClaimed();
  }

  /** Kills it: without a job it has nothing to lose. Resolves when it is gone. */
  async kill(): Promise<void> {
    // Otherwise a server that stops would have nothing left to wait for.
    this.process.ref();
    this.process.kill('SIGKILL');
    await this.exited;
  }
}

/** A fixed number of spare runners: starting one takes longer than everything else in the start of a job. */
export class SpareRunners {
  readonly #ready = new Set<SpareRunner>();
  /** The last start that was begun. */
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

  /** Takes one, which another one replaces soon; undefined if none is ready. */
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

  /** Starts what is missing, in a while. */
  #refill(pause: number): void {
    clearTimeout(this.#timer);
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => {
      // One after the other, since each takes processor time from the jobs.
      this.#starting = this.#starting.then(() => this.#start());
    }, pause).unref();
  }

  async #start(): Promise<void> {
    if (this.#isClosed || this.#ready.size >= this.count) return;
    try {
      const spare = await SpareRunner.start(this.program);
      this.#ready.add(spare);
      void spare.exited.then(() => {
        // Otherwise it has had a job.
        if (this.#ready.delete(spare)) this.#refill(failurePause);
      });
      this.#refill(quiet);
    } catch {
      // Jobs start without one.
      this.#refill(failurePause);
    }
  }
}
