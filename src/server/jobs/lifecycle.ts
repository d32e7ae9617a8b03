import { lstatSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { formatBytes } from '../../contract/bytes.js';
import { operationOf } from '../../contract/operations.js';
import { faultWithoutPath, isDiskFull, isShortage, isSystemError } from '../../files/error-code.js';
import type { Packer } from '../../pack/packer.js';
import type { RunEnd, RunRequest } from '../../runner/protocol.js';
import type { Executor } from '../executors/executor.js';
import { signalNumber } from '../executors/signals.js';
import type { Job } from './job.js';
import { type Grant, type Scheduler, TicketCancelled } from './scheduler.js';

export interface LifecycleSettings {
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

/** Milliseconds between two tries to start a job on a machine that has no room for it at the moment. */
const retryInterval = 1000;
const killedByUser = 'Killed by user';

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

/** What the app made of its output directory, in words; null where it is still one. */
function outputFault(output: string): string | null {
  const stats = lstatSync(output, { throwIfNoEntry: false });
  if (!stats) return 'The app removed its output directory: there is no result';
  return stats.isDirectory()
    ? null
    : 'The app replaced its output directory, which is not followed: there is no result';
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
      if (job.killRequested) await job.finish('killed', killedByUser);
      else await this.#conclude(end);
    } catch (cause) {
      if (job.killRequested || cause instanceof TicketCancelled) {
        await job.finish('killed', killedByUser);
      } else {
        this.deps.report(`Job ${job.id} failed`, cause);
        await job.finish('error', faultWithoutPath(cause));
      }
    }
  }

  /** Ends the job, wherever it is. */
  kill(): void {
    this.job.requestKill().catch((cause) => {
      this.deps.report(`The kill of job ${this.job.id} could not be saved`, cause);
    });
    this.#packing.abort();
    if (this.job.state === 'running') this.deps.executor.stop(this.job.directory.path);
  }

  #adopt(): Grant {
    this.deps.scheduler.adopt(this.job.grant);
    return this.job.grant;
  }

  async #queue(): Promise<Grant> {
    const { job } = this;
    const { device } = job.request;
    // One that an earlier server accepted waits for a GPU that is gone: it may come back.
    const impossible = job.isRestored ? null : this.deps.scheduler.impossible(device);
    if (impossible !== null) throw new Error(impossible);
    const ticket = this.deps.scheduler.request(device, job.isRestored);
    // It may be cancelled before it is waited for below.
    ticket.granted.catch(() => {});
    const position = ticket.position();
    if (position !== null) {
      await job.wait(ticket).catch((cause) => {
        this.deps.report(`Job ${job.id} could not be saved as waiting`, cause);
      });
      job.log(`Waiting for ${ticket.waitingFor}: position ${position} in the queue`);
    }
    const grant = await ticket.granted;
    try {
      if (grant.gpus.length > 0) job.log(`Assigned GPUs: ${grant.gpus.join(', ')}`);
      await this.#whenThereIsRoom(() => job.run(grant));
      return grant;
    } catch (cause) {
      this.deps.scheduler.release(grant);
      throw cause;
    }
  }

  /**
   * Does what takes room on the disk, descriptors or processes, as soon as there are some: what others have used up is
   * no fault of this job.
   */
  async #whenThereIsRoom(step: () => Promise<void>): Promise<void> {
    for (let told = false; ; told = true) {
      if (this.job.killRequested) throw new TicketCancelled();
      try {
        return await step();
      } catch (cause) {
        if (!isShortage(cause) && !isDiskFull(cause)) throw cause;
        if (!told) this.deps.report(`Job ${this.job.id} waits until the machine has room for it`, cause);
        await delay(retryInterval, undefined, { ref: false });
      }
    }
  }

  /** Runs the command; its devices are free again when no process of it is left, and not before. */
  async #execute(grant: Grant): Promise<RunEnd> {
    const { job } = this;
    const { executor, scheduler } = this.deps;
    const directory = job.directory.path;
    try {
      if (!executor.hasStarted(directory)) {
        const request = this.#runRequest(grant);
        const where = grant.gpus.length > 0 ? `GPU ${grant.gpus.join(', ')}` : 'the CPU';
        job.log(`Starting ${operationOf(job.request.operation).segment} on ${where}`);
        await this.#whenThereIsRoom(() => executor.launch(directory, request));
      }
      if (job.killRequested) executor.stop(directory);
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
      output: job.directory.output,
      environment: environmentFor(job, grant),
      maxLogBytes: this.deps.settings.maxLogBytes,
      killGrace: this.deps.settings.killGrace,
      gpuUuids: grant.gpuUuids,
    };
  }

  async #conclude(end: RunEnd): Promise<void> {
    const { job } = this;
    if (end.lostLines > 0)
      job.log(`${end.lostLines} lines of the log could not be written: the disk had no room`);
    // The kernel takes SIGKILL when memory runs out, and tells nobody but its own log.
    if (end.signal === 'SIGKILL') {
      job.log('The command was killed, and not by this service: the server may have run out of memory');
    }
    const error = endError(end) ?? outputFault(job.directory.output);
    if (error !== null) {
      await job.finish('error', error);
      return;
    }
    await this.#whenThereIsRoom(() => this.#pack());
    await job.finish('done', null);
  }

  /**
   * Packs the result. One that cannot be kept as an archive, for want of room or for a fault of the disk, is packed while
   * it is downloaded: the output is there, and nothing is removed for it.
   */
  async #pack(): Promise<void> {
    const { job } = this;
    const { output, result } = job.directory;
    try {
      const { files, bytes, notes } = await this.deps.packer.pack(output, result, this.#packing.signal);
      for (const note of notes) job.log(`Result: ${note}`);
      job.log(`Result: ${files} ${files === 1 ? 'file' : 'files'}, ${formatBytes(bytes)}`);
    } catch (cause) {
      const isOfDisk = isDiskFull(cause) || (isSystemError(cause) && !isShortage(cause));
      if (!isOfDisk) throw cause;
      this.deps.report(
        `The result of job ${job.id} cannot be kept as an archive; it is packed while it is sent`,
        cause,
      );
      job.log(
        `Result: packed while it is downloaded, as the disk of the server failed: ${faultWithoutPath(cause)}`,
      );
    }
  }
}
