import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, readSync } from 'node:fs';
import type { Socket } from 'node:net';
import { Duplex, Readable } from 'node:stream';
import { processesOfJob } from '../runner/job-processes.js';
import { openOutputPipe } from '../runner/output-pipe.js';
import { lowerPriority } from '../runner/priority.js';
import { identify, type ProcessIdentity } from '../runner/process-table.js';
import { outputFifo } from '../runner/protocol.js';
import {
  descendantsOf,
  endInSandbox,
  processesInside,
  readStatusOf,
  signalInside,
} from '../runner/sandboxed.js';
import { sandboxFault, startFault, startProgram } from '../runner/start-program.js';
import { signal, terminateGroup, terminateStrays } from '../runner/terminate.js';
import { LimitWatch } from '../runner/watch-limits.js';
import {
  answersFifo,
  answersFile,
  answersVariable,
  jobsFifo,
  type WorkerEnd,
  type WorkerRequest,
} from '../runner/worker-files.js';
import type { JobCall } from './door.js';
import { openInward, openOutward } from './fifos.js';
import { JobStage } from './stage.js';

/** How a worker ended. */
export type WorkerExit = Omit<WorkerEnd, 'note'>;

/** Most bytes that a pipe holds: what an app has flushed before it answers is not more. */
const pipeBytes = 1 << 20;

/** The worker: the loaded app, with all its processes. */
export class WorkerProcess {
  /** What it prints, both streams in order. */
  readonly output: Socket;
  readonly answers: Socket;
  /** The leader of its group. */
  readonly identity: ProcessIdentity;
  /** Resolves when no process of it is left. */
  readonly exit: Promise<WorkerExit>;
  /** What its sandbox shows of its jobs. */
  readonly stage: JobStage;
  readonly #group: number;
  /** Its stdin. */
  readonly #jobs: Socket;
  #ending: Promise<void> | null = null;

  private constructor(
    private readonly request: WorkerRequest,
    private readonly home: string,
    private readonly child: ChildProcess,
    readonly outputFd: number,
    pipes: { readonly output: Socket; readonly answers: Socket; readonly jobs: Socket },
  ) {
    this.output = pipes.output;
    this.answers = pipes.answers;
    this.#group = child.pid ?? 0;
    this.identity = identify(this.#group);
    this.exit = this.#exit();
    const [, , , , , channel]: readonly unknown[] = child.stdio;
    this.stage = new JobStage(channel instanceof Duplex ? channel : null);
    this.#jobs = pipes.jobs;
    // It may have closed its stdin.
    this.#jobs.on('error', () => {});
  }

  /** @throws Error in words */
  static async start(request: WorkerRequest, home: string): Promise<WorkerProcess> {
    const output = openOutputPipe(home);
    const answers = openInward(answersFifo(home));
    const jobs = openOutward(jobsFifo(home));
    try {
      // How bwrap tells of the end, and how jobs are shown to the sandbox.
      const more = request.hasStage ? (['pipe', 'pipe'] as const) : [];
      const environment = { ...request.environment, [answersVariable]: answersFile };
      const child = startProgram({ ...request, environment, directory: home }, request.id, [
        jobs.readFd,
        output.writeFd,
        output.writeFd,
        answers.writeFd,
        ...more,
      ]);
      await once(child, 'spawn');
      lowerPriority(child);
      return new WorkerProcess(request, home, child, output.readFd, {
        output: output.reader,
        answers: answers.reader,
        jobs: jobs.writer,
      });
    } catch (cause) {
      output.reader.destroy();
      answers.reader.destroy();
      jobs.writer.destroy();
      throw new Error(startFault(request, cause), { cause });
    } finally {
      output.release();
      closeSync(answers.writeFd);
      closeSync(jobs.readFd);
    }
  }

  /** Gives it a line on its stdin. */
  tell(line: string): void {
    this.#jobs.write(line);
  }

  /** What it has printed up to now and is still in the pipe. What was read already comes as `data`, before this returns. */
  readOutput(): Buffer[] {
    // Each of these reads emits `data`.
    while (this.output.read() !== null);
    const read: Buffer[] = [];
    let length = 0;
    if (this.output.destroyed) return read;
    try {
      while (length < pipeBytes) {
        const chunk = Buffer.alloc(64 * 1024);
        const bytes = readSync(this.outputFd, chunk);
        if (bytes === 0) break;
        read.push(chunk.subarray(0, bytes));
        length += bytes;
      }
    } catch {
      // The pipe is empty, or closed.
    }
    return read;
  }

  /**
   * Its processes.
   * @param jobId a job that it has, whose processes may have nothing else in common with it
   */
  async processes(jobId?: string): Promise<number[]> {
    if (this.request.isSandboxed) return processesInside(this.#group);
    const pipe = outputFifo(this.home);
    const ids = [this.request.id, ...(jobId === undefined ? [] : [jobId])];
    const marked = await Promise.all(ids.map((id) => processesOfJob(id, pipe, 'everything', 'younger')));
    return [...new Set([...marked.flat(), ...descendantsOf(this.#group)])];
  }

  /** Ends what only names the job and no longer the worker. Nothing gets out of a sandbox, which is gone with the worker. */
  async endLeftBy({ job, directory }: JobCall): Promise<void> {
    if (!this.request.isSandboxed) await terminateStrays(job, directory);
  }

  /** Ends it, with all its processes: SIGTERM, then SIGKILL after the grace. */
  end(grace = this.request.killGrace): Promise<void> {
    if (grace === 0) signal(-this.#group, 'SIGKILL');
    this.#jobs.end();
    const ask = this.request.isSandboxed ? (leader: number) => signalInside(leader, 'SIGTERM') : undefined;
    this.#ending ??= terminateGroup(this.#group, grace, ask);
    return this.#ending;
  }

  async #exit(): Promise<WorkerExit> {
    const { child, request } = this;
    const pipe = child.stdio[4];
    const status = request.isSandboxed && pipe instanceof Readable ? readStatusOf(pipe) : undefined;
    const watch = new LimitWatch(this.#group, request.limits, () => signal(-this.#group, 'SIGKILL'));
    await once(child, 'exit');
    watch.stop();
    this.stage.close();
    await this.end();
    if (!request.isSandboxed) await terminateStrays(request.id, this.home);
    const { exitCode, signalCode } = child;
    if (watch.excess !== null) return { exitCode: null, signal: 'SIGKILL', ...watch.excess };
    const plain = { exitCode, signal: signalCode, error: null, fault: null };
    if (status === undefined || signalCode !== null) return plain;
    const code = await status;
    // A bwrap that was killed, as where the memory runs out, has told nothing, but the one around it ends with its signal.
    const end = endInSandbox(code ?? exitCode ?? 0);
    if (code === undefined && end.signal === null)
      return { exitCode: null, signal: null, error: sandboxFault(request), fault: null };
    return { ...plain, ...end };
  }
}
