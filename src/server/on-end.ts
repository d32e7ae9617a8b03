import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { counted, excerpt, quotePath } from '../contract/index.js';
import { faultWithoutPath, findProgram, programEnd, type Release, Turns } from '../files/index.js';
import type { EndedJob, ServerEvents } from './events.js';
import type { Report } from './report.js';
import { SetupError } from './setup-error.js';

/** Milliseconds that the program may take for one job. */
const usualLongest = 30_000;
/** Programs that run at once. */
const mostAtOnce = 4;
/** Jobs that may wait for one of them. */
const mostWaiting = 1000;
/** Milliseconds that a stopping server waits for them. */
const closeGrace = 3000;
/** Bytes of stderr that are kept for the report of a failure. */
const maxErrorBytes = 4096;

/**
 * What the program gets on stdin, as JSON. It has nothing that names a file or a person's scan: no input names, tag,
 * options or error text, which may be an app's own words. Times are ISO 8601.
 */
export interface EndDocument {
  readonly job_id: string;
  readonly app: string;
  /** The version of the app when the job began; null if it is not known. */
  readonly version: string | null;
  readonly operation: string;
  readonly status: EndedJob['state'];
  /** 128 and the number of the signal if one ended the command; null if it never ran, or that is not known. */
  readonly exit_code: number | null;
  /** Seconds from its submission until it began, or until it ended without having begun. */
  readonly queue_seconds: number;
  /** Null if it never ran. */
  readonly run_seconds: number | null;
  /** Names of its GPUs, or `CPU`; empty if it never ran. */
  readonly devices: readonly string[];
  /** Name of the token that it was submitted with; null for the token of the environment, or none. */
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

export interface OnEndDeps {
  /** The program and its arguments, which is run without a shell. */
  readonly command: readonly string[];
  /** Without the server's secrets. */
  readonly environment: NodeJS.ProcessEnv;
  /**
   * Notes on the disk that the program is about to run for a job, and completes what is known of it.
   * @returns null if it ran for this job before
   * @throws the system's error if that cannot be noted
   */
  readonly begin: (end: EndedJob) => Promise<EndedJob | null>;
  /** Names of the devices that a job had. */
  readonly deviceNames: (end: EndedJob) => readonly string[];
  readonly report: Report;
}

/** The first bytes of a stream, which is read to its end. */
function beginning(stream: Readable | null | undefined): () => string {
  let text = '';
  stream?.setEncoding('utf8');
  stream?.on('error', () => {});
  stream?.on('data', (chunk: string) => {
    if (text.length < maxErrorBytes) text += chunk.slice(0, maxErrorBytes);
  });
  return () => text;
}

/** Ends a program and what it has started, unless all of it has ended. */
function endGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // Nothing is left.
  }
}

/**
 * Runs a program of the admin for each job that ends. A job is noted as told before the program starts, so that it runs
 * at most once per job: after a crash in between, it has not run, and will not. Jobs that a stop or a crash of the server
 * left waiting are told by the next server. No failure touches a job.
 */
export class OnEnd {
  readonly #turns = new Turns(mostAtOnce);
  readonly #closing = new AbortController();
  readonly #running = new Set<ChildProcess>();
  readonly #told = new Set<Promise<void>>();
  #lastFailure = '';

  /** @param longest milliseconds that the program may take for one job; then it is killed, with what it has started */
  constructor(
    private readonly deps: OnEndDeps,
    private readonly longest = usualLongest,
  ) {}

  follow(events: ServerEvents): void {
    events.on('ended', (end) => this.take(end));
  }

  /** Runs the program for this job when it is its turn. */
  take(end: EndedJob): void {
    if (this.#told.size >= mostWaiting + mostAtOnce) {
      this.#fail(
        end,
        `${counted(mostWaiting, 'other job')} wait for it; the next start of the server runs it`,
      );
      return;
    }
    const told = this.#tell(end).finally(() => this.#told.delete(told));
    this.#told.add(told);
  }

  /** Waits a moment for the programs, ends those that are left, and leaves waiting jobs to the next server. */
  async close(): Promise<void> {
    await Promise.race([Promise.all(this.#told), delay(closeGrace, undefined, { ref: false })]);
    this.#closing.abort();
    for (const child of this.#running) endGroup(child);
    await Promise.all(this.#told);
  }

  /** Never rejects. */
  async #tell(end: EndedJob): Promise<void> {
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

  async #run(end: EndedJob): Promise<void> {
    const { longest } = this;
    const { command, environment } = this.deps;
    const [program = '', ...words] = command;
    const child = spawn(program, words, {
      cwd: '/',
      // A group of its own, so that what it starts is ended with it.
      detached: true,
      stdio: ['pipe', 'ignore', 'pipe'],
      env: environment,
    });
    this.#running.add(child);
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      endGroup(child);
    }, longest);
    try {
      // A program that does not read its stdin is none the worse for it.
      child.stdin?.on('error', () => {});
      child.stdin?.end(`${JSON.stringify(this.#documentOf(end))}\n`);
      const { exitCode, signal, stderr } = await programEnd(child, beginning);
      const ended = signal === null ? `exit code ${exitCode}` : `ended by ${signal}`;
      const how = isLate ? `it was ended after ${longest / 1000} s` : ended;
      if (exitCode === 0) this.#lastFailure = '';
      else this.#fail(end, [how, excerpt(stderr.trim().replaceAll(/\s+/g, ' '))].filter(Boolean).join(': '));
    } finally {
      clearTimeout(timer);
      this.#running.delete(child);
      endGroup(child);
    }
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

  /** Reports a failure, but not the same one for each job: the first until it succeeds, or fails in another way. */
  #fail({ id }: EndedJob, problem: string): void {
    if (problem === this.#lastFailure) return;
    this.#lastFailure = problem;
    this.deps.report(
      `The program of --on-end failed for job ${id}; the same failure is not reported again`,
      problem,
    );
  }
}
