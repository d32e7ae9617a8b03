import { type ChildProcess, execFile } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, readlinkSync, readSync } from 'node:fs';
import type { Socket } from 'node:net';
import path from 'node:path';
import { Duplex, Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { openWorkerPipes } from './pipes.js';
import { identify, processesOfJob } from './process-table.js';
import {
  answersFile,
  answersVariable,
  type JobCall,
  onLines,
  outputFifo,
  type ProcessIdentity,
  type WorkerEnd,
  type WorkerRequest,
} from './protocol.js';
import { descendantsOf, endOfCode, processesInside, readStatusOf, signalInside } from './sandboxed.js';
import { lowerPriority, sandboxFault, startFault, startProgram } from './start-program.js';
import { signal, terminateGroup, terminateStrays } from './terminate.js';
import { UsageWatch } from './usage.js';

const run = promisify(execFile);
/** Time limit for emptying a worker's directories; if it passes, the worker is ended. */
const patience = { timeout: 30_000, killSignal: 'SIGKILL' } as const;

/** Maximum size in bytes of an answer without a newline. */
const maxAnswer = 64 * 1024;

/** A message of a worker: the app is loaded, or a job has ended. */
export type Answer = { readonly kind: 'ready' } | JobAnswer;

/** How a job ended, and whether the worker ends after it. */
export interface JobAnswer {
  readonly kind: 'done';
  readonly job: string;
  readonly exitCode: number;
  readonly isLast: boolean;
}

/** A worker has broken the protocol. The message continues a sentence that begins with `The app`. */
export class WrongAnswer extends Error {}

function readAnswer(line: string): Answer {
  let json: unknown;
  try {
    json = JSON.parse(line);
  } catch {
    throw new WrongAnswer('answered with a line that is not JSON');
  }
  const { ready, job, exit_code: code, last } = Object(json) as Record<string, unknown>;
  if (ready === true) return { kind: 'ready' };
  if (typeof job !== 'string') throw new WrongAnswer('answered with a line that names no job');
  if (typeof code !== 'number' || !Number.isInteger(code) || code < 0 || code > 255) {
    throw new WrongAnswer('answered with an exit code that is not a whole number from 0 to 255');
  }
  return { kind: 'done', job, exitCode: code, isLast: last === true };
}

/** Splits what a worker writes into answers. */
export class AnswerReader {
  #rest = Buffer.alloc(0);

  /** Whether an incomplete answer has been received. */
  get hasBegun(): boolean {
    return this.#rest.length > 0;
  }

  /**
   * Returns the answers that this chunk completes.
   * @throws WrongAnswer
   */
  *push(chunk: Buffer): Generator<Answer, void> {
    this.#rest = Buffer.concat([this.#rest, chunk]);
    for (let end = this.#rest.indexOf(10); end >= 0; end = this.#rest.indexOf(10)) {
      const line = this.#rest.subarray(0, end);
      this.#rest = this.#rest.subarray(end + 1);
      if (line.length > maxAnswer) throw new WrongAnswer(tooLong);
      yield readAnswer(line.toString());
    }
    if (this.#rest.length > maxAnswer) throw new WrongAnswer(tooLong);
  }
}

const tooLong = `answered with a line of more than ${maxAnswer / 1024} KiB`;

/**
 * Shell script that empties directories; `tmp` in the first one remains. Fails if a file with content is left: only mount points,
 * such as that of an app below `/tmp`, cannot be removed.
 */
const clearing = `cd "$1" && shift && find . "$@" -mindepth 1 ! -path ./tmp -delete 2>/dev/null
left=$(find . "$@" ! -type d -size +0c -print -quit) && [ -z "$left" ]`;

/** Whether a process is inside the inner sandbox of a worker, unlike the one that mounts its jobs. */
const isInside = (pid: number): boolean =>
  readlinkSync(`/proc/${pid}/ns/pid`) !== readlinkSync('/proc/self/ns/pid');

/** Milliseconds allowed for showing or hiding a job. */
const showPatience = 60_000;

/** Shows jobs to a worker's sandbox, one after another. Does nothing for a worker without a sandbox. */
class ShownJobs {
  #answer: (text: string) => void = () => {};

  /** @param channel to the process that mounts the jobs' directories; null without a sandbox */
  constructor(private readonly channel: Duplex | null) {
    if (channel === null) return;
    onLines(channel, (line) => this.#answer(line));
    channel.on('error', () => {});
    channel.once('close', () => this.#answer(''));
  }

  /** Shows a job, given its working directory. @returns whether the job is visible now */
  show(workspace: string): Promise<boolean> {
    return this.#ask('show', workspace);
  }

  /** Hides a job again. @returns whether the job is hidden now */
  hide(workspace: string): Promise<boolean> {
    return this.#ask('hide', workspace);
  }

  /** Ends the process that does the mounting. */
  close(): void {
    this.channel?.destroy();
  }

  async #ask(verb: string, workspace: string): Promise<boolean> {
    if (this.channel === null) return true;
    const job = path.basename(path.dirname(workspace));
    // The job's id becomes part of a shell command.
    if (this.channel.destroyed || !/^[\w-]+$/.test(job)) return false;
    const answered = new Promise<string>((resolve) => {
      this.#answer = resolve;
    });
    this.channel.write(`${verb} ${job}\n`);
    return (await Promise.race([answered, delay(showPatience, '', { ref: false })])) === verb;
  }
}

/** How a worker ended. */
export type WorkerExit = Omit<WorkerEnd, 'lostLines'>;

/** Capacity of a pipe in bytes, which is the maximum of what an app can have flushed before its answer. */
const pipeBytes = 1 << 20;

/** The worker: the process of a resident app, with everything that it has started. */
export class WorkerProcess {
  /** The worker's stdout and stderr, in order. */
  readonly output: Socket;
  readonly answers: Socket;
  /** The leader of the worker's process group. */
  readonly identity: ProcessIdentity;
  /** Resolves when no process of the worker is left. */
  readonly exit: Promise<WorkerExit>;
  /** Shows jobs to the worker's sandbox. */
  readonly shown: ShownJobs;
  readonly usage: UsageWatch;
  readonly #group: number;
  /** The worker's stdin, to which jobs are written. */
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
    this.usage = new UsageWatch(this.#group, request, () => signal(-this.#group, 'SIGKILL'));
    this.exit = this.#exit();
    const [, , , , , channel]: readonly unknown[] = child.stdio;
    this.shown = new ShownJobs(channel instanceof Duplex ? channel : null);
    this.#jobs = pipes.jobs;
    // The worker may have closed its stdin.
    this.#jobs.on('error', () => {});
  }

  /** Starts the worker. @throws Error with a sentence for the user */
  static async start(request: WorkerRequest, home: string): Promise<WorkerProcess> {
    const { output, answers, jobs } = openWorkerPipes(home);
    try {
      // Pipes for bwrap's status, and for showing jobs to the sandbox.
      const more = request.isSandboxed ? (['pipe', 'pipe'] as const) : [];
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
      answers.release();
      closeSync(jobs.readFd);
    }
  }

  /** Writes a line to the worker's stdin. */
  send(line: string): void {
    this.#jobs.write(line);
  }

  /** Reads what is still in the pipe. Data that was read earlier is first emitted as `data`. */
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
   * Ids of the worker's processes.
   * @param jobId its current job, because some processes may be marked only with the job's id
   */
  async processes(jobId?: string): Promise<number[]> {
    if (this.request.isSandboxed) return processesInside(this.#group);
    const pipe = outputFifo(this.home);
    const ids = [this.request.id, ...(jobId === undefined ? [] : [jobId])];
    const marked = await Promise.all(ids.map((id) => processesOfJob(id, pipe, 'younger')));
    return [...new Set([...marked.flat(), ...descendantsOf(this.#group)])];
  }

  /**
   * Removes every file in the worker's own directories and in its sandbox's shared memory, for a worker whose jobs have several
   * owners. In a sandbox, this is done from inside, where no link leads to another file of the machine.
   * @returns whether nothing is left
   */
  async clear(): Promise<boolean> {
    const { home, request } = this;
    try {
      if (!request.isSandboxed) await run('sh', ['-c', clearing, 'sh', home], patience);
      else {
        const pids = await this.processes();
        // The inner sandbox's mounts can be entered only from the user namespace of the outer one.
        const user = `--user=/proc/${pids.find((pid) => !isInside(pid))}/ns/user`;
        const mounts = `--mount=/proc/${pids.find(isInside)}/ns/mnt`;
        const words = [user, mounts, '--preserve-credentials', 'sh', '-c', clearing, 'sh', home, '/dev/shm'];
        await run('nsenter', words, patience);
      }
      return true;
    } catch {
      return false;
    }
  }

  /**
   * Ends processes that are marked only with the job's id. In a sandbox nothing is done, because all processes end with the
   * worker.
   */
  async endLeftBy({ job, directory }: JobCall): Promise<void> {
    if (!this.request.isSandboxed) await terminateStrays(job, directory);
  }

  /** Ends all processes of the worker: SIGTERM, then SIGKILL after the grace period. */
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
    await once(child, 'exit');
    this.usage.stop();
    this.shown.close();
    await this.end();
    if (!request.isSandboxed) await terminateStrays(request.id, this.home);
    const { exitCode, signalCode } = child;
    const used = this.usage.usage();
    if (this.usage.excess !== null)
      return { exitCode: null, signal: 'SIGKILL', ...this.usage.excess, ...used };
    const plain = { exitCode, signal: signalCode, error: null, fault: null, ...used };
    if (status === undefined || signalCode !== null) return plain;
    const code = await status;
    // If bwrap is killed, for example when memory runs out, it reports nothing, but the outer bwrap ends with the same signal.
    const end = endOfCode(code ?? exitCode ?? 0);
    if (code === undefined && end.signal === null)
      return { ...plain, exitCode: null, error: sandboxFault(request) };
    return { ...plain, ...end };
  }
}
