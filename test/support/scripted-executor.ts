import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { constants } from 'node:os';
import path from 'node:path';
import { unknownNeeds } from '../../src/contract/index.js';
import type { Clock } from '../../src/files/index.js';
import { LogFile, OutputLog } from '../../src/runner/log.js';
import type * as executorsModule from '../../src/server/executors/index.js';
import type {
  AskedDevices,
  Device,
  DeviceMemory,
  DeviceRequest,
  Ended,
  Executor,
  Grant,
  JobRef,
  OwnerLimits,
  RunEvent,
  RunOrder,
  Waiting,
} from '../../src/server/executors/index.js';
import type * as schedulerModule from '../../src/server/executors/local/scheduler.js';
import type { Ticket } from '../../src/server/executors/local/scheduler.js';
import { play as probe } from '../fixtures/apps/probe/play.mjs';
import { load } from './built.js';

/** Ends a script at once. */
class Exit extends Error {
  constructor(
    readonly exitCode: number,
    readonly signal: string | null = null,
  ) {
    super();
  }
}

const signals: Readonly<Record<string, number>> = constants.signals;
const bySignal = (name: string) => new Exit(128 + (signals[name] ?? 0), name);

/** What only a job with a process of its own can do: the test has to ask for runners. */
class NotScripted extends Error {}

/** Steps of the probe that only a process can do. */
const ofProcesses = ['socket', 'stubborn', 'child', 'stray', 'closeoutput'];

/** One run of a job. */
interface Run {
  readonly path: string;
  readonly grant: Grant;
  /** Ends it by throwing this error. */
  readonly end: (cause: Exit) => void;
  readonly ended: Promise<Ended>;
  isOver: boolean;
}

/** The behaviour of an app: `play.mjs` beside its program. */
export type Play = typeof probe;

/** Does in this process what the app would do. */
async function runScript(
  play: Play,
  order: RunOrder,
  words: readonly string[],
  grant: Grant,
  signal: AbortSignal,
): Promise<void> {
  const { directory, environment } = order;
  const [, program = '', ...argv] = words;
  if (!existsSync(path.join(path.dirname(program), 'play.mjs'))) throw new NotScripted(program);
  const log = new LogFile(path.join(directory.path, 'log'), 1 << 26);
  const output = new OutputLog(log);
  const print = (bytes: string | Uint8Array) => output.push(Buffer.from(bytes as string));
  const steps = (cwd: string) => ({
    error: (text: string) => print(`${text}\n`),
    shell: (command: string) =>
      new Promise<void>((resolve, reject) => {
        const env = { ...process.env, ...environment };
        execFile('sh', ['-c', command], { cwd, env, signal, encoding: 'buffer' }, (cause, out, err) => {
          print(out);
          print(err);
          if (cause) reject(cause);
          else resolve();
        });
      }),
    exit: (code: string) => {
      throw new Exit(Number(code));
    },
    signal: (name: string) => {
      throw bySignal(name);
    },
    ...Object.fromEntries(ofProcesses.map((name) => [name, () => Promise.reject(new NotScripted(name))])),
  });
  const env = { ...environment, CUDA_VISIBLE_DEVICES: grant.gpus.join(',') };
  try {
    await play({ argv, program, cwd: directory.workspace, env, print, signal, steps });
  } finally {
    output.end();
    log.close();
  }
}

/** The jobs that run in this process. Like real jobs, they outlive their server, and the next one finds them. */
export class ScriptedRuns {
  readonly #runs = new Map<string, Run>();
  readonly #unscripted: string[] = [];

  constructor(private readonly play: Play = probe) {}

  of(job: Pick<JobRef, 'path'>): Run | undefined {
    return this.#runs.get(job.path);
  }

  forget(job: Pick<JobRef, 'path'>): void {
    this.#runs.delete(job.path);
  }

  below(directory: string): readonly JobRef[] {
    return [...this.#runs.values()]
      .filter((run) => !run.isOver && path.dirname(run.path) === directory)
      .map((run) => ({ id: path.basename(run.path), path: run.path }));
  }

  start(order: RunOrder, grant: Grant, clock: Clock): Run {
    const stop = new AbortController();
    const { timeLimit } = order;
    const late = bySignal('SIGTERM');
    const cancel = timeLimit === null ? () => {} : clock.after(timeLimit, () => stop.abort(late));
    const words = order.command(grant);
    const ended = runScript(this.play, order, words, grant, stop.signal)
      .then(
        () => new Exit(0),
        (cause) => {
          if (stop.signal.aborted) return stop.signal.reason;
          if (cause instanceof Exit) return cause;
          if (cause instanceof NotScripted) this.#unscripted.push(cause.message);
          return new Exit(1);
        },
      )
      .then(({ exitCode, signal }: Exit): Ended => {
        run.isOver = true;
        cancel();
        const fault = stop.signal.reason === late ? 'timeLimit' : null;
        const endedAt = new Date(clock.now()).toISOString();
        return {
          kind: 'ended',
          exitCode,
          signal,
          fault,
          error: null,
          lostLines: 0,
          ...{ peakMemory: 2 ** 20, cpuSeconds: 0.5 },
          endedAt,
        };
      });
    const run: Run = {
      path: order.directory.path,
      grant,
      end: (cause) => stop.abort(cause),
      ended,
      isOver: false,
    };
    this.#runs.set(run.path, run);
    return run;
  }

  /** Ends the remaining jobs. Fails if one was asked for something that only a process can do. */
  async close(): Promise<void> {
    const runs = [...this.#runs.values()];
    for (const run of runs) run.end(bySignal('SIGTERM'));
    await Promise.all(runs.map(({ ended }) => ended));
    const unscripted = this.#unscripted.join(', ');
    if (unscripted !== '') throw new Error(`Scripts cannot do this, ask for runners: ${unscripted}`);
  }
}

const builtExecutors = async () => ({
  ...(await load<typeof executorsModule>('server/executors/index.js')),
  ...(await load<typeof schedulerModule>('server/executors/local/scheduler.js')),
});

export interface ScriptedSettings {
  readonly gpus: number;
  readonly cpuSlots: number;
  readonly clock: Clock;
}

/**
 * Runs jobs in the process of the test: placed by the scheduler of this machine, each does the steps that it was submitted
 * with, as the probe does (`test/fixtures/apps/probe`). No runner and no app is started.
 */
export class ScriptedExecutor implements Executor {
  readonly #scheduler: schedulerModule.Scheduler;
  readonly #gpus: readonly Required<Omit<Device, 'isFree' | 'node' | 'out'>>[];
  readonly #tickets = new Map<string, { readonly ticket: Ticket; isStopped: boolean; over: Promise<void> }>();
  #isLeft = false;

  private constructor(
    private readonly runs: ScriptedRuns,
    private readonly built: Awaited<ReturnType<typeof builtExecutors>>,
    private readonly settings: ScriptedSettings,
    limits: OwnerLimits,
  ) {
    this.#gpus = Array.from({ length: settings.gpus }, (_, id) => ({
      id,
      name: 'NVIDIA H200',
      uuid: `GPU-${id}`,
    }));
    this.#scheduler = new built.Scheduler(this.#gpus, settings.cpuSlots, {
      maxGpus: limits.maxGpus,
      maxJobs: limits.maxJobs,
      now: () => settings.clock.monotonic(),
    });
  }

  /** Returns the function that creates the executor of a new server. */
  static async maker(runs: ScriptedRuns, settings: ScriptedSettings) {
    const built = await builtExecutors();
    return (limits: OwnerLimits) => new ScriptedExecutor(runs, built, settings, limits);
  }

  /** Its server is gone: it reports nothing any more and leaves its jobs to the next one. */
  leave(): void {
    this.#isLeft = true;
  }

  capacity() {
    return { gpus: this.#gpus.map(({ id }) => ({ id, memory: 24 * 2 ** 30 })), memory: null, cpus: null };
  }

  reconsider(): void {
    this.#scheduler.reconsider();
  }

  async devices(): Promise<readonly Device[]> {
    return this.#gpus.map((gpu) => ({ ...gpu, isFree: this.#scheduler.isFree(gpu) }));
  }

  async memory(ids: readonly number[]): Promise<DeviceMemory> {
    this.built.refuseUnknown(ids, this.#gpus);
    return { used: ids.length * 2 ** 30, total: ids.length * 2 ** 34 };
  }

  check(asked: AskedDevices): DeviceRequest {
    return this.built.checkDevices(asked, this.#gpus);
  }

  run(order: RunOrder): AsyncIterable<RunEvent> {
    const { directory, isAccepted, grant } = order;
    const impossible = isAccepted ? null : this.#scheduler.impossible(order);
    if (impossible !== null) throw new Error(impossible);
    const job = { ...order, id: directory.id };
    const ticket = grant ? this.#scheduler.adopt(grant, job) : this.#scheduler.request(job);
    ticket.granted.catch(() => {});
    let settle = () => {};
    const over = new Promise<void>((resolve) => {
      settle = resolve;
    });
    this.#tickets.set(directory.path, { ticket, isStopped: false, over });
    return this.#events(order, ticket, settle);
  }

  async stop(job: JobRef): Promise<void> {
    const entry = this.#tickets.get(job.path);
    if (entry) entry.isStopped = true;
    entry?.ticket.cancel();
    const run = this.runs.of(job);
    run?.end(bySignal('SIGTERM'));
    await Promise.all([run?.ended, entry?.over]);
  }

  forget(job: JobRef): void {
    this.runs.forget(job);
  }

  isRunning(job: JobRef): boolean {
    return this.runs.of(job)?.isOver === false;
  }

  runningUnder(directory: string): readonly JobRef[] {
    return this.runs.below(directory);
  }

  reserve({ id, path }: JobRef): () => void {
    const run = this.runs.of({ path });
    if (!run || run.isOver) return () => {};
    const grant = { ...run.grant };
    this.#scheduler.adopt(grant, { id, owner: null, needs: unknownNeeds, isAlone: true });
    return () => this.#scheduler.release(grant);
  }

  /** The value of a promise, unless the server is gone by then. */
  async #here<T>(promise: Promise<T>): Promise<T> {
    const value = await promise;
    return this.#isLeft ? new Promise<never>(() => {}) : value;
  }

  async *#events(order: RunOrder, ticket: Ticket, settle: () => void): AsyncGenerator<RunEvent, void> {
    const { directory } = order;
    let end = this.built.unrecordedEnd(null, 'It was stopped before it started');
    const grant = (yield* this.#wait(ticket)) ?? null;
    if (grant) {
      end = (yield* this.#execute(order, grant)) ?? end;
      this.#scheduler.release(grant);
    }
    this.#tickets.delete(directory.path);
    settle();
    yield end;
  }

  async *#wait(ticket: Ticket): AsyncGenerator<Waiting, Grant | undefined> {
    let told: Waiting | undefined;
    await Promise.resolve();
    for (let position = ticket.position(); position !== null; position = ticket.position()) {
      const waiting: Waiting = { kind: 'waiting', for: ticket.waitingFor(), position };
      if (told?.for === waiting.for && told.position === position) {
        await this.#here(once(this.#scheduler, 'change'));
      } else {
        told = waiting;
        yield waiting;
      }
    }
    return this.#here(ticket.granted.catch(() => undefined));
  }

  /** @returns undefined if it was stopped before it had started */
  async *#execute(order: RunOrder, grant: Grant): AsyncGenerator<RunEvent, Ended | undefined> {
    const { directory } = order;
    const found = this.runs.of(directory);
    if (!found || order.grant === null) {
      const where = grant.gpus.length > 0 ? `GPU ${grant.gpus.join(', ')}` : 'the CPU';
      yield { kind: 'placed', where, grant };
    }
    if (!found && this.#tickets.get(directory.path)?.isStopped) return undefined;
    const run = found ?? this.runs.start(order, grant, this.settings.clock);
    return this.#here(run.ended);
  }
}
