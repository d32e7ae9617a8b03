import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { ownerInWords } from '../../access/index.js';
import type { Packer } from '../../archive/index.js';
import {
  commandOf,
  counted,
  formatBytes,
  internalError,
  type KillCause,
  killErrors,
  quoteName,
  ServiceError,
  spellDuration,
  startPrefix,
} from '../../contract/index.js';
import {
  type Clock,
  errorCode,
  faultWithoutPath,
  isDiskFull,
  isShortage,
  isSystemError,
  secondsUntil,
} from '../../files/index.js';
import type {
  Ended,
  Executor,
  Grant,
  JobAccess,
  Placed,
  Resident,
  RunOrder,
  Waiting,
} from '../executors/index.js';
import type { Report } from '../report.js';
import { whenThereIsRoom } from '../when-there-is-room.js';
import { countLeftFiles, DiskLimit, outputFault, resultSize } from './disk-use.js';
import type { EndFacts, Job } from './job.js';
import {
  appVariables,
  type JobDirectory,
  readRefusal,
  refusalVariables,
  retryWords,
} from './job-directory.js';
import type { JobRequest } from './job-record.js';
import { outOfMemoryError, whatRanOut } from './out-of-memory.js';
import type { Trash } from './trash.js';

/** What the server knows about the apps of jobs. */
export interface JobApps {
  /** The command of a job on these devices. @throws ServiceError if the app cannot be run any more */
  commandFor(request: JobRequest, directory: JobDirectory, grant: Grant): readonly string[];
  /** The version of an app as its files are now. Null if it has none. */
  versionOf(
    app: string,
  ): Promise<{ readonly known: Promise<string | null>; readonly isSnapshot?: boolean } | null>;
  /** What jobs of an app may access besides their own files. */
  accessOf(app: string): JobAccess;
  /** How a job's app is loaded on these devices, if it stays loaded; otherwise null. */
  residentFor(request: JobRequest, grant: Grant): Resident | null;
  /** A sentence for an exit code by which the program of an app reports that memory ran out; null for any other code. */
  explainOutOfMemory(app: string, exitCode: number): string | null;
}

export interface LifecycleDeps {
  readonly executor: Executor;
  readonly packer: Packer;
  readonly apps: JobApps;
  /** Bytes that a job may write. */
  readonly diskPerJob: number;
  readonly trash: Trash;
  readonly clock: Clock;
  readonly report: Report;
}

/** Milliseconds to wait for a kill to be saved before the command is stopped anyway. */
const killSaveTimeout = 2000;

/** The error message of a job whose command ended like this; null for success. */
function endError({ exitCode, signal, error, machineFault }: Ended): string | null {
  if (error === null && exitCode === 0) return null;
  // The system sends this signal to a process that exceeds the server's file-size limit; the disk is not full.
  const hint = signal === 'SIGXFSZ' ? '; it wrote a larger file than it may (ulimit -f of the server)' : '';
  const failure =
    error ?? `Subprocess failed (exit code ${exitCode}${signal === null ? '' : `, ${signal}`})${hint}`;
  return machineFault === undefined ? failure : `${failure}. ${machineFault}`;
}

/** The remaining run time of a job in milliseconds, since a job of an earlier server has used some. Null for no limit. */
function timeLeft({ request: { timeLimit }, record, state }: Job, clock: Clock): number | null {
  if (timeLimit === null) return null;
  if (state !== 'running') return timeLimit * 1000;
  const { limitAtBootTime, startedAt } = record;
  // After a reboot, only the wall clock can be used.
  const byBoot = limitAtBootTime && secondsUntil(clock, limitAtBootTime);
  const left = byBoot ?? timeLimit - (clock.now() - Date.parse(startedAt ?? '')) / 1000;
  return Math.min(Math.max(left, 0), timeLimit) * 1000;
}

/** An error message for a client. The message of a bug in this program is only logged, because it may name files. */
function inWords(cause: unknown): string {
  if (cause instanceof ServiceError) return cause.message;
  const isOfProgram =
    [TypeError, ReferenceError, SyntaxError, RangeError].some((kind) => cause instanceof kind) ||
    (errorCode(cause) !== '' && !isSystemError(cause) && !isDiskFull(cause));
  return isOfProgram ? internalError().detail : faultWithoutPath(cause);
}

/** Takes one job from the queue to its end, whatever happens, including jobs that an earlier server left unfinished. */
export class Lifecycle {
  readonly #packing = new AbortController();
  /** Settles when packing the result is over. */
  #packed: Promise<unknown> = Promise.resolve();
  #isLeft = false;
  #isExecuting = false;
  #disk: DiskLimit | null = null;
  /** Why it exceeds its disk limit, once it does. */
  #excess: string | null = null;

  constructor(
    private readonly job: Job,
    private readonly deps: LifecycleDeps,
  ) {}

  /** Resolves when the job is final. */
  async run(): Promise<void> {
    const { job } = this;
    try {
      const end = await this.#execute();
      if (end.wasAlone) job.notWarm();
      for (const { resource, used, declared } of job.overuse)
        job.log(
          `The job used ${formatBytes(used)} of ${resource.replace('gpu_', 'GPU ')}; app ${quoteName(job.request.app)} declares ${formatBytes(declared)}`,
        );
      if (job.killRequested) await this.#finishKilled();
      else await this.#conclude(end);
    } catch (cause) {
      if (job.killRequested) {
        await this.#finishKilled();
      } else {
        this.deps.report(`Job ${job.id} failed`, cause instanceof ServiceError ? cause.message : cause);
        await this.#fail('error', inWords(cause));
      }
    }
  }

  /** Ends the job in any state. */
  kill(by: KillCause): void {
    const { job } = this;
    const saved = job.requestKill(by).catch((cause) => {
      this.deps.report(`The kill of job ${job.id} could not be saved`, cause);
    });
    this.#packing.abort();
    // Saved before the command is stopped. After a crash in between, the next server would otherwise see a failed
    // command.
    void Promise.race([saved, delay(killSaveTimeout, undefined, { ref: false })]).then(() => this.#stop());
  }

  /** Leaves the job to the next server. Resolves when this server no longer writes its result. */
  async leave(): Promise<void> {
    this.#isLeft = true;
    this.#packing.abort();
    await this.#packed.catch(() => {});
  }

  /** Ends a job whose end was requested. */
  async #finishKilled(): Promise<void> {
    const { job } = this;
    const error = killErrors[job.killCause ?? 'user'];
    // The reader of the log did not request the stop, and the log is where an admin looks later.
    if (job.killCause === 'stop') job.log(error);
    await this.#fail('killed', error);
  }

  /** Ends the job without a result, and records how many files it left. */
  async #fail(state: 'error' | 'killed', error: string, facts: EndFacts = {}): Promise<void> {
    const leftFiles = await countLeftFiles(this.job.directory.output);
    await this.job.finish(state, error, { ...facts, leftFiles });
  }

  #stop(): void {
    if (this.#isExecuting) void this.deps.executor.stop(this.job.directory);
  }

  /** Runs the job until none of its processes is left. */
  async #execute(): Promise<Ended> {
    const { job } = this;
    const { executor } = this.deps;
    if (job.record.isAlone && job.state === 'waiting') await this.#removeFirstTry();
    const events = executor.run(this.#order());
    this.#isExecuting = true;
    if (job.killRequested) void executor.stop(job.directory);
    try {
      for await (const event of events) {
        if (event.kind === 'waiting') await this.#wait(event);
        else if (event.kind === 'placed') await this.#start(event);
        else {
          job.noteCommandEnd(event);
          job.noteVersionAtEnd(
            this.#versionNow().then((asked) => (asked?.isSnapshot ? null : (asked?.known ?? null))),
          );
          return event;
        }
      }
    } finally {
      this.#isExecuting = false;
      this.#disk?.close();
    }
    throw new Error('The executor reported no end of the job');
  }

  /** Determines the version of its app from the files as they are now; null if that fails. */
  #versionNow(): ReturnType<JobApps['versionOf']> {
    return this.deps.apps.versionOf(this.job.request.app).catch(() => null);
  }

  #order(): RunOrder {
    const { directory, request, isRestored, grant, record } = this.job;
    const { apps, clock } = this.deps;
    return {
      directory,
      devices: request.device,
      needs: request.needs,
      owner: request.owner,
      timeLimit: timeLeft(this.job, clock),
      isAccepted: isRestored || record.isAlone,
      isAlone: record.isAlone,
      grant,
      environment: {
        ...appVariables,
        TMPDIR: directory.temporary,
        ...Object.fromEntries(refusalVariables.map((name) => [name, directory.refusal])),
      },
      command: (grant) => apps.commandFor(request, directory, grant),
      access: () => apps.accessOf(request.app),
      resident: (grant) => apps.residentFor(request, grant),
    };
  }

  async #wait(waiting: Waiting): Promise<void> {
    const { job } = this;
    this.#disk?.close();
    await job.wait(waiting).catch((cause) => {
      this.deps.report(`Job ${job.id} could not be saved as waiting`, cause);
    });
    job.logPlace(`Waiting for ${waiting.for}: position ${waiting.position} in the queue`);
  }

  /** Saves the job's devices before its command starts, so that a later server knows who holds them. */
  async #start({ grant, where, start }: Placed): Promise<void> {
    const { job } = this;
    if (job.state !== 'running') {
      if (grant.gpus.length > 0) job.log(`Assigned GPUs: ${grant.gpus.join(', ')}`);
      // The files of the app are examined before the command reads them, but their content is read while the command runs, so
      // that large weights do not delay it.
      const version = this.#versionNow();
      if (!(await this.#whenThereIsRoom(() => job.run(grant, start ?? null)))) {
        this.#stop();
        return;
      }
      const asked = await version;
      if (asked) job.noteVersion(asked.known);
    }
    this.#watchDisk();
    job.log(`${startPrefix}${commandOf(job.request.operation)} on ${where}`);
  }

  /** Ends the job when it has written more than it may. */
  #watchDisk(): void {
    const { directory } = this.job;
    const { diskPerJob, clock } = this.deps;
    const removedButOpen = async () => (await this.deps.executor.removedButOpen?.(directory)) ?? 0;
    const disk = new DiskLimit(directory, { max: diskPerJob, removedButOpen, clock });
    this.#disk = disk;
    const stop = (excess: string | null) => {
      if (excess === null) return;
      this.#excess = excess;
      this.#stop();
    };
    disk
      .exceeded()
      .then(stop, (cause) => this.deps.report(`Job ${this.job.id} could not be measured`, cause));
  }

  /** Ends a job that has written too much. Its files are removed at once, because all jobs share the disk. */
  async #concludeFull(excess: string): Promise<void> {
    const { job, deps } = this;
    const error = `Ended: ${excess}; its files are removed`;
    deps.report(`Job ${job.id} of ${ownerInWords(job.request.owner)} is ended`, excess);
    job.log(error);
    void deps.trash.discardWritten(job.directory);
    await job.finish('error', error, { leftFiles: 0 });
  }

  /**
   * Takes a step as soon as the machine has room for it.
   * @returns whether the step was done; false if the job was killed first
   */
  #whenThereIsRoom(step: () => Promise<void>): Promise<boolean> {
    const { job } = this;
    return whenThereIsRoom(
      step,
      () => job.killRequested,
      (cause) => this.deps.report(`Job ${job.id} waits until the machine has room for it`, cause),
    );
  }

  async #conclude(end: Ended): Promise<void> {
    const { job } = this;
    if (end.lostLines > 0)
      job.log(`${counted(end.lostLines, 'line')} of the log could not be written: the disk had no room`);
    if (end.fault === 'timeLimit') {
      const error = `Ended at its time limit: it may run for ${spellDuration(job.request.timeLimit ?? 0)}`;
      job.log(error);
      await this.#fail('error', error);
      return;
    }
    const excess = this.#excess ?? (await this.#disk?.look()) ?? null;
    if (excess !== null) {
      await this.#concludeFull(excess);
      return;
    }
    const refusal = this.#refusal(end);
    const memoryError = refusal === null ? this.#memoryError(end) : null;
    if (memoryError !== null) {
      await this.#concludeOutOfMemory(memoryError, end);
      return;
    }
    const error = refusal ?? endError(end) ?? outputFault(job.directory.output);
    if (error !== null) {
      await this.#fail('error', error, { isRefused: refusal !== null });
      return;
    }
    const tooLong = (await this.#disk?.lookAtResult()) ?? null;
    if (tooLong !== null) {
      await this.#concludeFull(tooLong);
      return;
    }
    const isPacked = await this.#whenThereIsRoom(() => this.#pack());
    if (isPacked) await job.finish('done', null, { resultBytes: await resultSize(job.directory) });
    else await this.#finishKilled();
  }

  /** The error of a command that ran out of memory; null for any other end. */
  #memoryError(end: Ended): string | null {
    const { directory, request, record } = this.job;
    const { app, needs } = request;
    const meaning = this.deps.apps.explainOutOfMemory(app, end.exitCode ?? 0);
    const scarce = whatRanOut(end, record.gpus.length > 0, meaning !== null, () => directory.lastLines());
    if (scarce === null) return null;
    const { gpus, memory } = this.deps.executor.capacity();
    const ofGpus =
      gpus?.filter(({ id }) => record.gpus.includes(id)).flatMap((gpu) => gpu.memory ?? []) ?? [];
    const figures =
      scarce === 'memory'
        ? { available: memory, declared: needs.memory, used: end.peakMemory }
        : {
            available: ofGpus.length > 0 ? Math.min(...ofGpus) : null,
            declared: needs.gpuMemory,
            used: end.peakGpuMemory ?? null,
          };
    return outOfMemoryError(scarce, end, meaning, figures);
  }

  /** Runs a job that ran out of memory once more, with its devices to itself, if the job requests that; otherwise ends it. */
  async #concludeOutOfMemory(error: string, end: Ended): Promise<void> {
    const { job } = this;
    // A job that exceeded its own limit would exceed it again.
    const mayFit = end.fault === null || end.error === null;
    if (!job.request.retryAlone || job.record.isAlone || !mayFit) {
      job.log(error);
      await this.#fail('error', error, { kind: 'out-of-memory' });
      return;
    }
    if (await this.#whenThereIsRoom(() => job.retryAlone())) {
      job.log(`${error}; ${retryWords}`);
      await this.run();
    } else await this.#finishKilled();
  }

  /** Removes the output and the records of the first run before a second one. The log stays. */
  async #removeFirstTry(): Promise<void> {
    const { directory } = this.job;
    this.deps.executor.forget(directory);
    await this.deps.trash.discardWritten(directory);
    if (existsSync(directory.output) || existsSync(directory.workspace))
      throw new Error('What its first run wrote could not be removed, so it does not run again');
    directory.makeDirectories();
  }

  /** The app's own message if it refused its input. After a signal, or a fault of the machine, the cause is different. */
  #refusal({ exitCode, signal, fault, error, machineFault }: Ended): string | null {
    const hasFailedItself = exitCode !== 0 && signal === null && !(fault ?? error ?? machineFault);
    return hasFailedItself ? readRefusal(this.job.directory.refusal) : null;
  }

  /**
   * Packs the result. If there is no space for an archive, or the disk fails, the result is packed while it is
   * downloaded: the output stays, and nothing is removed to make room.
   */
  async #pack(): Promise<void> {
    const { job } = this;
    const { output, result } = job.directory;
    try {
      const packed = this.deps.packer.pack(output, result, this.#packing.signal);
      this.#packed = packed;
      const { files, bytes, notes } = await packed;
      for (const note of notes) job.log(`Result: ${note}`);
      job.log(`Result: ${counted(files, 'file')}, ${formatBytes(bytes)}`);
    } catch (cause) {
      // The next server reports the end of the job.
      if (this.#isLeft) return new Promise(() => {});
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
