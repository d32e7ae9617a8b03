import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { writeJsonFile } from '../../../files/index.js';
import {
  type HostMessage,
  isClosed,
  lowerPriority,
  onMessages,
  sendMessage,
  type WorkerRequest,
  type WorkerState,
  withSocketAddress,
  workerFiles,
  workerHostProgram,
} from '../../../runner/index.js';
import { killHost, parseWorkerState, removeWorker } from './worker-records.js';

/** Milliseconds that a worker host may take to answer. */
const answerPatience = 30_000;
/** Milliseconds that a worker host may take beyond the worker's grace before it is killed. */
const hostGrace = 2500;

/** What a worker is started with, except its id and what depends on it. */
export type WorkerOrder = Omit<WorkerRequest, 'id' | 'wrapper'> & {
  /** Arguments that precede its command, for the directory of a worker host. */
  readonly wrapper: (directory: string) => readonly string[];
};

export interface WorkerHostSettings {
  /** Directory that contains the directories of the workers. */
  readonly directory: string;
  /** The environment of worker hosts and workers: the server's, without its token variables. */
  readonly environment: NodeJS.ProcessEnv;
  /** The worker host's program; by default the one beside this program. */
  readonly program?: string;
}

/** A worker, as its worker host reports it to the server. */
export class Worker extends EventEmitter<{ change: [] }> {
  /** The job that it is reserved for, from the choice of the worker until the job has ended; null if there is none. */
  promised: string | null = null;
  /** Resolves when the worker host and every process of the worker are gone. */
  readonly gone: Promise<void>;
  #state: WorkerState['state'] | 'gone' = 'loading';
  /** Since when it has been idle (`performance.now()`). */
  #idleSince = performance.now();
  #killTimer: NodeJS.Timeout | undefined;
  #isAskedToLeave = false;
  #isDetached = false;
  /** The job that its worker host currently has. */
  #job: string | null = null;

  private constructor(
    readonly directory: string,
    readonly request: WorkerRequest,
    private readonly socket: Socket,
  ) {
    super();
    this.setMaxListeners(0);
    onMessages(socket, (message) => this.#handle(message));
    this.gone = this.#untilGone();
    sendMessage(socket, { kind: 'attach' });
  }

  /**
   * Starts a worker host, which starts the worker at once.
   * @throws the system's error, or an Error if the worker host does not come up
   */
  static async start(order: WorkerOrder, settings: WorkerHostSettings): Promise<Worker> {
    const id = `worker-${randomBytes(6).toString('hex')}`;
    const directory = path.join(settings.directory, id);
    const { request: file, temporary, jobMounts } = workerFiles(directory);
    for (const each of [temporary, jobMounts]) mkdirSync(each, { recursive: true, mode: 0o700 });
    const request: WorkerRequest = { ...order, id, wrapper: order.wrapper(directory) };
    writeJsonFile(file, request, { isKept: false });
    try {
      const { program = workerHostProgram, environment } = settings;
      const host = spawn(process.execPath, [program, directory], {
        cwd: directory,
        env: environment,
        stdio: ['ignore', 'pipe', 'ignore'],
        detached: true,
      });
      const spawned = once(host, 'spawn');
      // `stdout` is missing if there were too few file descriptors.
      const stdout: Readable | undefined = host.stdout;
      stdout?.resume();
      const isUp = stdout && once(stdout, 'close').catch(() => {});
      await spawned;
      lowerPriority(host);
      host.unref();
      // The worker host closes its stdout when it starts to listen, and when it ends.
      await Promise.race([isUp, delay(answerPatience, undefined, { ref: false })]);
      stdout?.destroy();
      return await Worker.attach(directory, request);
    } catch (cause) {
      killHost(directory);
      await removeWorker(directory);
      throw cause;
    }
  }

  /** Connects to the worker host of a directory. @throws if none answers */
  static async attach(directory: string, request: WorkerRequest): Promise<Worker> {
    const socket = withSocketAddress(directory, (address) => connect(address));
    try {
      await once(socket, 'connect');
      const worker = new Worker(directory, request, socket);
      await Promise.race([
        once(worker, 'change'),
        worker.gone,
        delay(answerPatience, undefined, { ref: false }),
      ]);
      if (worker.#state === 'gone') throw new Error('The worker host has left');
      return worker;
    } catch (cause) {
      socket.destroy();
      throw cause;
    }
  }

  /** Whether a job may be given to it now. */
  get isFree(): boolean {
    return this.isUnused && !this.#isAskedToLeave && ['loading', 'idle'].includes(this.#state);
  }

  /** Whether no job uses it or is about to. */
  get isUnused(): boolean {
    return this.promised === null && this.#job === null;
  }

  /** Whether a job finds the app loaded already. */
  get isLoaded(): boolean {
    return this.#state === 'idle' || this.#state === 'busy';
  }

  get isGone(): boolean {
    return this.#state === 'gone';
  }

  /** Milliseconds for which it has been idle; 0 if it is not. */
  get idleFor(): number {
    return this.isFree ? performance.now() - this.#idleSince : 0;
  }

  /** Whether it has this job, or is reserved for it. */
  has(jobId: string): boolean {
    return this.promised === jobId || this.#job === jobId;
  }

  /** Releases it after its job has ended. Resolves when it is known whether it can take another job. */
  async release(jobId: string): Promise<void> {
    const deadline = performance.now() + answerPatience;
    while (this.#job === jobId && !this.isGone && performance.now() < deadline) {
      await Promise.race([once(this, 'change'), delay(answerPatience, undefined, { ref: false })]);
    }
    // A worker host that still has the job has lost its runner, and is stuck.
    if (this.#job === jobId) this.kill();
    if (this.promised === jobId) this.promised = null;
    this.#idleSince = performance.now();
    this.#killIfLate();
    this.emit('change');
  }

  /**
   * Asks the worker to leave, after its current job if any. A worker host that does not comply is killed. Resolves when it is
   * gone.
   */
  leave(): Promise<void> {
    this.#isAskedToLeave = true;
    sendMessage(this.socket, { kind: 'leave' });
    this.#killIfLate();
    return this.gone;
  }

  kill(): void {
    this.#isAskedToLeave = true;
    killHost(this.directory);
  }

  /** Leaves the worker host to the next server. */
  detach(): void {
    this.#isDetached = true;
    this.socket.destroy();
  }

  /**
   * Kills a worker host that takes too long to leave, but not before its job has ended: the job would be killed with it, although
   * the worker host may only be slow, because everything else has priority over it on a busy machine.
   */
  #killIfLate(): void {
    const isLeaving = this.#isAskedToLeave || this.#state === 'leaving';
    if (!isLeaving || !this.isUnused) return;
    this.#killTimer ??= setTimeout(() => this.kill(), this.request.killGrace + hostGrace);
    this.#killTimer.unref();
  }

  /** @throws ZodError for a state that no worker host has */
  #handle(message: HostMessage): void {
    if (message.kind !== 'state') return;
    const { state, job } = parseWorkerState(message.state);
    this.#state = state;
    if (job === null && this.#job !== null) this.#idleSince = performance.now();
    this.#job = job;
    this.#killIfLate();
    this.emit('change');
  }

  async #untilGone(): Promise<void> {
    await isClosed(this.socket);
    clearTimeout(this.#killTimer);
    if (!this.#isDetached) await removeWorker(this.directory);
    this.#job = null;
    this.#state = 'gone';
    this.emit('change');
  }
}
