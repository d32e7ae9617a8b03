import { setTimeout as delay } from 'node:timers/promises';
import type { Packer } from '../../archives/packer.js';
import { formatBytes } from '../../contract/bytes.js';
import type { FinalState } from '../../contract/job.js';
import { operationOf } from '../../contract/operations.js';
import { errorCode } from '../../files/error-code.js';
import type { RunEnd, RunRequest } from '../../runner/protocol.js';
import type { Executor } from '../executors/executor.js';
import { signalNumber } from '../executors/signals.js';
import type { Job } from './job.js';
import { type Grant, type Scheduler, TicketCancelled } from './scheduler.js';

export interface LifecycleSettings {
  /** Milliseconds that a job is kept once it has ended. */
  readonly grace: number;
  /** Milliseconds between SIGTERM and SIGKILL. */
  readonly killGrace: number;
  readonly maxLogBytes: number;
}

export interface LifecycleDeps {
  readonly scheduler: Scheduler;
  readonly executor: Executor;
  readonly packer: Packer;
  readonly settings: LifecycleSettings;
  /** The command of a job that was given these devices. */
  readonly commandFor: (job: Job, grant: Grant) => readonly string[];
  /** Says on the server's log what no client can be told. */
  readonly report: (problem: string, cause: unknown) => void;
}

/** Milliseconds between two tries to write down how a job ended, on a disk that is full. */
const retryInterval = 1000;

const isDiskFull = (cause: unknown): boolean =>
  errorCode(cause) === 'ENOSPC' || (cause instanceof Error && cause.message.startsWith('ENOSPC'));

function reasonOf(cause: unknown): string {
  if (isDiskFull(cause)) return "The server's disk is full; submit the job again when there is room";
  return cause instanceof Error ? cause.message : String(cause);
}

/** How a command ended, as the one sentence that everybody reads; null for success. */
function endError({ exitCode, signal, error }: RunEnd): string | null {
  if (error !== null) return error;
  if (signal !== null) return `Subprocess failed (exit code ${128 + signalNumber(signal)}, ${signal})`;
  return exitCode === 0 ? null : `Subprocess failed (exit code ${exitCode})`;
}

function environmentFor(job: Job, grant: Grant): Record<string, string> {
  const { temporary } = job.directory;
  const common = { PYTHONUNBUFFERED: '1', TMPDIR: temporary };
  if (grant.gpus.length === 0) return { ...common, CUDA_VISIBLE_DEVICES: '' };
  // By bus id, CUDA numbers GPUs as nvidia-smi does.
  return { ...common, CUDA_DEVICE_ORDER: 'PCI_BUS_ID', CUDA_VISIBLE_DEVICES: grant.gpus.join(',') };
}

/** Takes one job from the queue to its end, whatever happens; also one that an earlier server left midway. */
export class Lifecycle {
  readonly #packing = new AbortController();

  constructor(
    private readonly job: Job,
    private readonly deps: LifecycleDeps,
  ) {}

  /** Resolves when the job is final. */
  async run(): Promise<void> {
    const { job } = this;
    try {
      const grant = job.state === 'running' ? this.#adopt() : await this.#queue();
      const end = await this.#execute(grant);
      if (job.record.killRequested) await this.#finish('killed', 'Killed by user');
      else await this.#conclude(end);
    } catch (cause) {
      if (job.record.killRequested || cause instanceof TicketCancelled) {
        await this.#finish('killed', 'Killed by user');
      } else {
        this.deps.report(`Job ${job.id} failed`, cause);
        if (isDiskFull(cause)) await job.directory.makeRoom();
        await this.#finish('error', reasonOf(cause));
      }
    }
  }

  /** Ends the job, wherever it is. */
  kill(): void {
    try {
      this.job.requestKill();
    } catch (cause) {
      this.deps.report(`The kill of job ${this.job.id} could not be written down`, cause);
    }
    this.#packing.abort();
    if (this.job.state === 'running') this.deps.executor.stop(this.job.directory.path);
  }

  #adopt(): Grant {
    this.deps.scheduler.adopt(this.job.grant);
    return this.job.grant;
  }

  async #queue(): Promise<Grant> {
    const { job } = this;
    const impossible = this.deps.scheduler.impossible(job.request.device);
    if (impossible !== null) throw new Error(impossible);
    const ticket = this.deps.scheduler.request(job.request.device);
    const position = ticket.position();
    if (position !== null) {
      job.wait(ticket);
      job.log(`Waiting for ${ticket.waitingFor}: position ${position} in the queue`);
    }
    const grant = await ticket.granted;
    try {
      if (job.record.killRequested) throw new TicketCancelled();
      if (grant.gpus.length > 0) job.log(`Assigned GPUs: ${grant.gpus.join(', ')}`);
      job.run(grant);
      return grant;
    } catch (cause) {
      this.deps.scheduler.release(grant);
      throw cause;
    }
  }

  /** Runs the command; its devices are free again when no process of it is left. */
  async #execute(grant: Grant): Promise<RunEnd> {
    const { job } = this;
    const { executor, scheduler } = this.deps;
    const directory = job.directory.path;
    try {
      if (!executor.hasStarted(directory)) {
        const request = this.#runRequest(grant);
        const where = grant.gpus.length > 0 ? `GPU ${grant.gpus.join(', ')}` : 'the CPU';
        job.log(`Starting ${operationOf(job.request.operation).segment} on ${where}`);
        await executor.launch(directory, request);
      }
      if (job.record.killRequested) executor.stop(directory);
      return await executor.wait(directory, job.id);
    } finally {
      scheduler.release(grant);
    }
  }

  #runRequest(grant: Grant): RunRequest {
    const { job } = this;
    return {
      jobId: job.id,
      command: this.deps.commandFor(job, grant),
      directory: job.directory.workspace,
      environment: environmentFor(job, grant),
      maxLogBytes: this.deps.settings.maxLogBytes,
      killGrace: this.deps.settings.killGrace,
    };
  }

  async #conclude(end: RunEnd): Promise<void> {
    const { job } = this;
    const error = endError(end);
    if (error !== null) {
      if (error.includes('ENOSPC')) await job.directory.makeRoom();
      await this.#finish('error', error);
      return;
    }
    const { output, result } = job.directory;
    const { files, bytes } = await this.deps.packer.pack(output, result, this.#packing.signal);
    job.log(`Result: ${files} ${files === 1 ? 'file' : 'files'}, ${formatBytes(bytes)}`);
    await this.#finish('done', null);
  }

  /** Writes down the end; on a disk that is full, as soon as there is room. */
  async #finish(state: FinalState, error: string | null): Promise<void> {
    for (let told = false; ; told = true) {
      try {
        this.job.finish(state, error, new Date(Date.now() + this.deps.settings.grace));
        return;
      } catch (cause) {
        if (!told) this.deps.report(`Job ${this.job.id} could not be written down as ${state}`, cause);
        // What it has filled the disk with is of no use to anybody.
        if (!told && isDiskFull(cause) && state !== 'done') {
          await this.job.directory.makeRoom();
          continue;
        }
        await delay(retryInterval, undefined, { ref: false });
      }
    }
  }
}
