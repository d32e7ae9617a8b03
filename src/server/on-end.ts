import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { counted, excerpt, quotePath } from '../contract/index.js';
import { faultWithoutPath, findProgram, type Release, Turns } from '../files/index.js';
import { runProgram } from '../programs/index.js';
import type { EndedJob, ServerEvents } from './events.js';
import type { Report } from './report.js';
import { SetupError } from './setup-error.js';

/** Milliseconds that the program is given for one job. */
const defaultLimit = 30_000;
/** Maximum number of programs that run at once. */
const maxAtOnce = 4;
/** Maximum number of jobs that wait for their turn. */
const maxWaiting = 1000;
/** Milliseconds that a stopping server waits for running programs. */
const closeGrace = 3000;
/** Maximum number of bytes of stderr that are kept for reporting a failure. */
const maxErrorBytes = 4096;

/**
 * What the program receives on stdin, as JSON. Nothing in it can reveal a file name: it has no input names, tags, options, or
 * error text, which an app may have written. Times are ISO 8601.
 */
export interface EndDocument {
  readonly job_id: string;
  readonly app: string;
  /** The version of the app when the job began; null if it is not known. */
  readonly version: string | null;
  readonly operation: string;
  readonly status: EndedJob['state'];
  /**
   * 128 plus the number of the signal if a signal ended the command; null if the command never ran, or if the code is not known.
   */
  readonly exit_code: number | null;
  /** Seconds from submission until the job began, or until it ended without having begun. */
  readonly queue_seconds: number;
  /** Null if the job never ran. */
  readonly run_seconds: number | null;
  /** Names of the job's GPUs, or `CPU`; empty if the job never ran. */
  readonly devices: readonly string[];
  /** Name of the token that the job was submitted with; null for the environment's token, or none. */
  readonly owner: string | null;
  readonly submitted_at: string;
  readonly ended_at: string;
}

/**
 * Checks that the program of `serve --on-end` exists and may be executed.
 * @param command the program and its arguments
 * @throws SetupError
 */
export function checkOnEnd([program = '']: readonly string[], searchPath: string): void {
  if (findProgram(program, searchPath) !== undefined) return;
  const problem = program.includes('/') ? 'it is not a file that can be executed' : 'it is not on PATH';
  throw new SetupError(`--on-end ${quotePath(program)}: ${problem}`);
}

/**
 * Names of the devices that a job had.
 * @param known the GPUs of this machine, searched by UUID first because their ids may have changed since the job began; those
 *   of a cluster have no names here
 */
export function deviceNames(
  { gpus, gpuUuids, cpuSlots }: Pick<EndedJob, 'gpus' | 'gpuUuids' | 'cpuSlots'>,
  known: readonly { readonly id: number; readonly uuid: string; readonly name: string }[],
): string[] {
  if (gpus.length === 0) return cpuSlots > 0 ? ['CPU'] : [];
  const byUuid = (uuid: string | undefined) => known.find((gpu) => uuid && gpu.uuid === uuid);
  const byId = (id: number) => known.find((gpu) => gpu.id === id);
  return gpus.map((id, index) => (byUuid(gpuUuids[index]) ?? byId(id))?.name ?? `GPU ${id}`);
}

export interface OnEndDeps {
  /** The program and its arguments. It is run without a shell. */
  readonly command: readonly string[];
  /** The program's environment, without the server's secrets. */
  readonly environment: NodeJS.ProcessEnv;
  /**
   * Records on disk that the program is about to run for a job. Returns the job's end, completed with what has become known
   * since.
   * @returns null if the program has already run for this job
   * @throws the system's error if recording fails
   */
  readonly begin: (end: EndedJob) => Promise<EndedJob | null>;
  /** Names of the devices that a job had. */
  readonly deviceNames: (end: EndedJob) => readonly string[];
  readonly report: Report;
}

/**
 * Runs the admin's program for each job that ends. Each run is recorded on disk before it starts, so the program runs at most
 * once per job; after a crash in between, it does not run at all. Jobs that are still waiting when the server stops are left to
 * the next server. A failure of the program affects no job.
 */
export class OnEnd {
  readonly #turns = new Turns(maxAtOnce);
  readonly #closing = new AbortController();
  readonly #pending = new Set<Promise<void>>();
  #lastFailure = '';

  /** @param limit milliseconds for one job, after which the program is killed with everything that it started */
  constructor(
    private readonly deps: OnEndDeps,
    private readonly limit = defaultLimit,
  ) {}

  follow(events: ServerEvents): void {
    events.on('ended', (end) => this.enqueue(end));
  }

  /** Queues a run of the program for this job. */
  enqueue(end: EndedJob): void {
    if (this.#pending.size >= maxWaiting + maxAtOnce) {
      this.#fail(
        end,
        `${counted(maxWaiting, 'other job')} wait for it; the next start of the server runs it`,
      );
      return;
    }
    const run = this.#runInTurn(end).finally(() => this.#pending.delete(run));
    this.#pending.add(run);
  }

  /** Waits a moment for running programs, then ends them, and leaves waiting jobs to the next server. */
  async close(): Promise<void> {
    await Promise.race([Promise.all(this.#pending), delay(closeGrace, undefined, { ref: false })]);
    this.#closing.abort();
    await Promise.all(this.#pending);
  }

  /** Waits for a turn, then runs the program. Never rejects. */
  async #runInTurn(end: EndedJob): Promise<void> {
    let release: Release;
    try {
      release = await this.#turns.take(this.#closing.signal);
    } catch {
      // The server is stopping.
      return;
    }
    try {
      const known = this.#closing.signal.aborted ? null : await this.deps.begin(end);
      if (known) await this.#run(known);
    } catch (cause) {
      this.#fail(end, faultWithoutPath(cause));
    } finally {
      release();
    }
  }

  /** Runs the program with its own temporary directory, because the system's may be read-only for a service. */
  async #run(end: EndedJob): Promise<void> {
    const { RUNTIME_DIRECTORY = '', TMPDIR } = this.deps.environment;
    const [parent] = RUNTIME_DIRECTORY.split(':');
    const scratch = await mkdtemp(path.join(parent || TMPDIR || tmpdir(), 'on-end-'));
    const run = runProgram(this.deps.command, {
      environment: { ...this.deps.environment, TMPDIR: scratch },
      // The program may ignore its stdin.
      input: `${JSON.stringify(this.#documentOf(end))}\n`,
      limit: this.limit,
      maxBytes: maxErrorBytes,
      beyond: 'keepFirst',
      stop: this.#closing.signal,
    });
    const remove = () => rm(scratch, { recursive: true, force: true });
    const { exitCode, signal, stderr, endedFor } = await run.finally(remove);
    const ended = signal === null ? `exit code ${exitCode}` : `ended by ${signal}`;
    const how = endedFor === 'limit' ? `it was ended after ${this.limit / 1000} s` : ended;
    if (exitCode === 0) this.#lastFailure = '';
    else this.#fail(end, [how, excerpt(stderr.trim().replaceAll(/\s+/g, ' '))].filter(Boolean).join(': '));
  }

  #documentOf(end: EndedJob): EndDocument {
    return {
      job_id: end.id,
      app: end.app,
      version: end.version,
      operation: end.operation,
      status: end.state,
      exit_code: end.exitCode,
      queue_seconds: end.queued,
      run_seconds: end.seconds,
      devices: this.deps.deviceNames(end),
      owner: end.owner,
      submitted_at: end.acceptedAt,
      ended_at: end.endedAt,
    };
  }

  /**
   * Reports a failure, unless it is the same as the last one: a repeated failure is reported again only after a success or a
   * different failure.
   */
  #fail({ id }: EndedJob, problem: string): void {
    if (problem === this.#lastFailure) return;
    this.#lastFailure = problem;
    this.deps.report(
      `The program of --on-end failed for job ${id}; the same failure is not reported again`,
      problem,
    );
  }
}
