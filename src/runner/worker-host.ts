import { mkdirSync } from 'node:fs';
import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { servicePrefix } from '../contract/log-stream.js';
import { writeJsonFile } from '../files/whole-file.js';
import { LogFile, OutputLog } from './log.js';
import { identify, isAlive } from './process-table.js';
import {
  type HostMessage,
  type JobCall,
  type ProcessIdentity,
  sendMessage,
  type WorkerHostRecord,
  type WorkerRequest,
  type WorkerState,
  workerFiles,
} from './protocol.js';
import { signal } from './terminate.js';
import { WorkerHostSocket } from './worker-host-socket.js';
import {
  type Answer,
  AnswerReader,
  type JobAnswer,
  type WorkerExit,
  WorkerProcess,
  WrongAnswer,
} from './worker-process.js';

/** Milliseconds for which output that the app prints while loading is held for the runner of the first job. */
const firstPatience = 30_000;
/**
 * Milliseconds to wait for the runner of the first job if the app has already ended: jobs run at the lowest priority, so the
 * runner may be slow.
 */
const runnerPatience = 30_000;
/** Milliseconds for which a job's processes may remain after its answer, and milliseconds between checks. */
const leftPatience = 500;
const leftInterval = 20;
/** Milliseconds that an app is given to exit after it has closed its answer pipe. */
const mutePatience = 5000;
/** Milliseconds that a runner is given to read the end of its job. */
const closePatience = 5000;
/** Added to the log of a job with which the app ends. */
const lastNote = 'The app ends with this job, and is loaded again for the next one';

/** The worker's current job. */
interface CurrentJob {
  readonly call: JobCall;
  readonly runner: Socket;
  readonly log: LogFile;
  readonly output: OutputLog;
  /** Whether the job was sent to the worker. */
  isSent: boolean;
  /** Whether the worker has answered. */
  isAnswered: boolean;
  isStopped: boolean;
}

/** Holds a worker, and gives it one job at a time. Ends when the worker does. */
export class WorkerHost {
  /** Resolves when the worker and everything that it started are gone, and the runner knows. */
  readonly gone: Promise<void>;
  readonly #socket: WorkerHostSocket;
  #worker: WorkerProcess | null = null;
  #job: CurrentJob | null = null;
  #hasSaidReady = false;
  /** Whether the worker can be given a job: it is ready, and its processes are known. */
  #isReady = false;
  /** Whether the runner of the first job has not connected yet. It may do so even after the app has ended. */
  #awaitsFirst = true;
  #firstCame = () => {};
  #isLeaving = false;
  /** Whether the worker ends after its current job. */
  #isLast = false;
  /** A sentence that says how the worker broke the protocol; null if it has not. */
  #wrong: string | null = null;
  /** The worker's processes when it became ready. After a job, only these may remain: all others belonged to the job. */
  #own: readonly ProcessIdentity[] = [];
  #idleTimer: NodeJS.Timeout | undefined;
  /** Resolves when the end of the last answered job has been sent to its runner. */
  #concluded: Promise<void> = Promise.resolve();
  #resolveGone = () => {};

  constructor(
    private readonly directory: string,
    private readonly request: WorkerRequest,
  ) {
    this.gone = new Promise((resolve) => {
      this.#resolveGone = resolve;
    });
    this.#socket = new WorkerHostSocket({
      state: () => this.#state,
      job: (runner, message) => this.#take(runner, message),
      stop: (runner) => this.#stop(runner),
      closed: (socket) => this.#stop(socket),
      leave: () => this.leave(),
      attached: () => this.#waitForJobs(),
    });
  }

  /**
   * Starts the worker, and listens for connections.
   * @throws if either fails
   */
  async open(): Promise<void> {
    const { directory, request } = this;
    const { home, temporary, record } = workerFiles(directory);
    mkdirSync(temporary, { recursive: true, mode: 0o700 });
    const host = identify(process.pid);
    writeJsonFile(record, { host, worker: null } satisfies WorkerHostRecord, { isKept: false });
    const environment = { TMPDIR: temporary, ...request.environment };
    const worker = await WorkerProcess.start({ ...request, environment }, home);
    this.#worker = worker;
    this.#listen(worker);
    writeJsonFile(record, { host, worker: worker.identity } satisfies WorkerHostRecord, { isKept: false });
    await this.#socket.open(directory);
    this.#waitForJobs();
  }

  /** Ends the worker, after its current job if there is one. */
  leave(): void {
    this.#isLast = true;
    this.#firstCame();
    if (this.#job === null) this.#end();
  }

  get #state(): WorkerState {
    const job = this.#job?.call.job ?? null;
    if (this.#isLeaving) return { state: 'leaving', job };
    if (job !== null) return { state: 'busy', job };
    return { state: this.#isReady ? 'idle' : 'loading', job };
  }

  #listen(worker: WorkerProcess): void {
    const answers = new AnswerReader();
    // Without a job it is dropped.
    worker.output.on('data', (chunk: Buffer) => this.#job?.output.push(chunk));
    worker.output.on('error', () => worker.output.destroy());
    // Output stays in the pipe for the runner of the first job.
    worker.output.pause();
    setTimeout(() => worker.output.resume(), firstPatience).unref();
    worker.answers.on('error', () => worker.answers.destroy());
    worker.answers.on('data', (chunk: Buffer) => {
      try {
        for (const answer of answers.push(chunk)) this.#handleAnswer(worker, answer);
        if (answers.hasBegun) this.#checkThatAwaitsAnswer();
      } catch (cause) {
        this.#blame(worker, cause instanceof WrongAnswer ? cause.message : 'gave an unreadable answer');
      }
    });
    worker.answers.once('end', () => void this.#endMute(worker).catch(() => {}));
    void worker.exit.then((exit) => this.#handleExit(worker, exit));
  }

  /**
   * Ends a worker that can no longer answer but is still running. A killed worker has closed its pipes too: how it ended is
   * reported when its exit is noticed, which may take long on a busy machine.
   */
  async #endMute(worker: WorkerProcess): Promise<void> {
    await delay(mutePatience, undefined, { ref: false });
    if (isAlive(worker.identity)) this.#blame(worker, 'closed its answer pipe');
  }

  /** @throws NotOurFile, or the system's error, if the log of the job cannot be opened: then the job is not taken */
  #take(runner: Socket, { call, log: file, maxLogBytes }: Extract<HostMessage, { kind: 'job' }>): void {
    const worker = this.#worker;
    const isTooLate = this.#isLeaving && !this.#awaitsFirst;
    if (!worker || this.#job || isTooLate || this.#isLast) {
      runner.destroy();
      return;
    }
    const log = new LogFile(file, maxLogBytes);
    clearTimeout(this.#idleTimer);
    // Drops the output between two jobs. Output from loading the app belongs to the first job.
    if (!this.#awaitsFirst) worker.readOutput();
    this.#awaitsFirst = false;
    worker.usage.begin();
    const output = new OutputLog(log);
    this.#job = { call, runner, log, output, isSent: false, isAnswered: false, isStopped: false };
    sendMessage(runner, { kind: 'accepted', worker: worker.identity });
    worker.output.resume();
    if (this.#isReady && !this.#isLeaving) void this.#give(worker, this.#job);
    this.#firstCame();
    this.#socket.sendState();
  }

  async #give(worker: WorkerProcess, job: CurrentJob): Promise<void> {
    if (!(await worker.shown.show(job.call.directory))) {
      // The sandbox may be ending with its app, whose exit code then gives the reason.
      await Promise.race([worker.exit, delay(leftPatience)]);
      if (!isAlive(worker.identity)) return;
      this.#wrong ??= 'The files of the job could not be shown to the app, which runs in a sandbox';
      this.#end(0);
      return;
    }
    job.isSent = true;
    worker.send(`${JSON.stringify(job.call)}\n`);
  }

  /** Ends the current job if its runner asks for that or has disconnected. */
  #stop(runner: Socket): void {
    if (this.#job?.runner !== runner || this.#job.isAnswered) return;
    this.#job.isStopped = true;
    this.#end();
  }

  #handleAnswer(worker: WorkerProcess, answer: Answer): void {
    const job = this.#job;
    if (answer.kind === 'ready') {
      if (this.#hasSaidReady) throw new WrongAnswer('said that it is ready a second time');
      void this.#becomeReady(worker);
    } else if (job?.isSent && answer.job === job.call.job) {
      if (job.isAnswered) throw new WrongAnswer('answered twice');
      job.isAnswered = true;
      this.#concluded = this.#conclude(worker, job, answer);
    } else {
      throw new WrongAnswer(
        job && answer.job === job.call.job
          ? 'answered before it was ready'
          : 'answered for a job that it does not have',
      );
    }
  }

  /**
   * @throws WrongAnswer if an answer begins when there is no job: it would be mixed up with the answer for the next job
   */
  #checkThatAwaitsAnswer(): void {
    const hasJob = this.#job?.isSent && !this.#job.isAnswered;
    if (this.#hasSaidReady && !hasJob) throw new WrongAnswer('wrote an answer without having a job');
  }

  async #becomeReady(worker: WorkerProcess): Promise<void> {
    this.#hasSaidReady = true;
    this.#own = (await worker.processes().catch(() => [])).map(identify);
    this.#isReady = true;
    if (this.#isLeaving) return;
    if (this.#job) void this.#give(worker, this.#job);
    else this.#waitForJobs();
    this.#socket.sendState();
  }

  /**
   * Handles the worker's answer: remaining output goes to the job, and the worker is free again, unless the job left processes
   * running.
   */
  async #conclude(worker: WorkerProcess, job: CurrentJob, { exitCode, isLast }: JobAnswer): Promise<void> {
    for (const chunk of worker.readOutput()) job.output.push(chunk);
    const usage = worker.usage.usage();
    if (isLast) this.#end(0);
    const left = await this.#leftBy(worker, job);
    let note = isLast ? lastNote : null;
    if (left.length > 0) {
      const processes = left.length === 1 ? 'a process' : `${left.length} processes`;
      note = `The app left ${processes} running: it was stopped, and is loaded again for the next job`;
      for (const pid of left) signal(pid, 'SIGKILL');
      this.#end(0);
    }
    if (!this.#isLeaving && !(await worker.shown.hide(job.call.directory))) this.#end(0);
    if (!this.#isLeaving && this.request.isShared && !(await worker.clear())) this.#end(0);
    if (this.#isLeaving) {
      await worker.exit;
      await worker.endLeftBy(job.call);
    }
    this.#sendEnd(job, { exitCode, signal: null, error: null, fault: null, ...usage }, note);
    this.#job = null;
    if (this.#isLast) this.#end();
    this.#waitForJobs();
    this.#socket.sendState();
  }

  /** The processes that a job left running, without those that the worker had when it became ready. */
  async #leftBy(worker: WorkerProcess, job: CurrentJob): Promise<readonly number[]> {
    const deadline = performance.now() + leftPatience;
    for (;;) {
      const found = await worker.processes(job.call.job).catch(() => null);
      const left = found?.filter((pid) => !this.#own.some((own) => own.pid === pid && isAlive(own)));
      if (left?.length === 0 || this.#isLeaving) return [];
      if (performance.now() > deadline) return left ?? [];
      await delay(leftInterval);
    }
  }

  /** Ends a worker that has broken the protocol, without a grace period. */
  #blame(worker: WorkerProcess, what: string): void {
    this.#wrong ??= `The app ${what}, against the protocol of resident apps, and was ended`;
    worker.answers.pause();
    this.#end(0);
  }

  #end(grace?: number): void {
    this.#isLeaving = true;
    clearTimeout(this.#idleTimer);
    this.#socket.sendState();
    void this.#worker?.end(grace);
  }

  /** Ends an idle worker after some time, in case no server does so. */
  #waitForJobs(): void {
    clearTimeout(this.#idleTimer);
    if (this.#job || this.#isLeaving || this.#socket.isAttached) return;
    this.#idleTimer = setTimeout(() => this.leave(), this.request.idle);
  }

  /** Completes the log of a job, and tells its runner how it ended. @param note a last line of the log; null for none */
  #sendEnd({ runner, log, output }: CurrentJob, end: WorkerExit, note: string | null): void {
    output.end();
    if (note !== null) log.append([servicePrefix + note]);
    log.close();
    sendMessage(runner, { kind: 'end', end: { ...end, lostLines: log.lostLines } });
  }

  /** Handles the end of the worker, which is also the end of its job. */
  async #handleExit(worker: WorkerProcess, exit: WorkerExit): Promise<void> {
    this.#isLeaving = true;
    if (this.#awaitsFirst && !this.#isLast) await this.#waitForFirst();
    const job = this.#job;
    if (job && !job.isAnswered) {
      for (const chunk of worker.readOutput()) job.output.push(chunk);
      await worker.endLeftBy(job.call);
      this.#sendEnd(job, this.#explain(exit, job), null);
      this.#job = null;
    }
    await this.#concluded;
    await this.#socket.close(closePatience);
    this.#resolveGone();
  }

  /** Waits for the runner of the first job if the app has already ended. That job ends with the app, and is not run again. */
  async #waitForFirst(): Promise<void> {
    const came = new Promise<void>((resolve) => {
      this.#firstCame = resolve;
    });
    await Promise.race([came, delay(runnerPatience)]);
    this.#awaitsFirst = false;
  }

  /** How a job ended whose worker is gone without having answered. */
  #explain(exit: WorkerExit, { isStopped }: CurrentJob): WorkerExit {
    if (this.#wrong !== null && !isStopped) {
      return { ...exit, exitCode: null, signal: null, error: this.#wrong, fault: null };
    }
    if (exit.exitCode !== 0 || exit.error !== null || isStopped) return exit;
    const when = this.#isReady ? 'without an answer' : 'before it was ready';
    return { ...exit, exitCode: null, error: `The app ended ${when} (exit code 0)` };
  }
}
