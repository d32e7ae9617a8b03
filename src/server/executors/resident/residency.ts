import { createHash } from 'node:crypto';
import path from 'node:path';
import type { JobStart } from '../../../contract/index.js';
import { isDiskFull, isShortage } from '../../../files/index.js';
import { jobMarker, type RunRequest, type WorkerCall, workerFiles } from '../../../runner/index.js';
import { isWithin, type JobLimits, jobsInSandbox, limitWords, type Sandbox } from '../../sandbox/index.js';
import type { Grant, JobAccess, Resident, RunOrder, WorkerInfo } from '../index.js';
import type { Worker, WorkerOrder } from './worker.js';
import { fingerprint, type GpuBooking, type WorkerChoice, Workers, type WorkersSettings } from './workers.js';

/** The variables of a job that name none of its files: its worker has them too. */
function sharedEnvironment(environment: RunRequest['environment'], { path }: RunOrder['directory']) {
  return Object.fromEntries(Object.entries(environment).filter(([, value]) => !isWithin(path, value)));
}

/** What a runner sends to its job's worker. */
function workerCall(
  { directory, request }: Pick<Worker, 'directory' | 'request'>,
  { programWords }: Resident,
  { jobId, command, environment }: RunRequest,
  marker: string,
): WorkerCall {
  const differing = Object.entries(environment).filter(
    ([name, value]) => request.environment[name] !== value,
  );
  // In its sandbox, `/tmp` is the worker's.
  const temporary = path.join(jobsInSandbox, jobId, 'Workspace', 'tmp');
  const inside = request.isSandboxed ? { HOME: temporary, TMPDIR: temporary } : {};
  return {
    id: request.id,
    directory,
    arguments: command.slice(programWords),
    environment: { ...Object.fromEntries(differing), ...inside, [marker]: jobId },
  };
}

export interface ResidencySettings extends Pick<WorkersSettings, 'environment' | 'report'> {
  /** Keeps jobs apart from each other; null where they run without. */
  readonly sandbox: Sandbox | null;
  /** What a job may use in its sandbox. */
  readonly limits: JobLimits;
  /** Where and how long apps stay loaded; if absent, they are started for each job. */
  readonly workers?: Pick<WorkersSettings, 'directory' | 'idle' | 'memoryUse' | 'program'>;
}

/** The worker that a job is given, if its app stays loaded. */
export interface Assignment {
  /** Its app, if that stays loaded. */
  readonly resident: Resident | null;
  /** The worker for that app. */
  readonly choice: WorkerChoice | null;
  /** Whether it finds its app loaded; null for an app that does not stay loaded. */
  readonly start: JobStart | null;
  /** Phrases about that for the log; empty if there is nothing to say. */
  readonly words: readonly string[];
  /** Resolves when no other app uses its GPUs. */
  readonly cleared: Promise<void>;
}

const startWords: Readonly<Record<JobStart, string>> = {
  cold: 'loading the app; it stays loaded',
  warm: 'the app is loaded already',
};

const unassigned: Assignment = {
  resident: null,
  choice: null,
  start: null,
  words: [],
  cleared: Promise.resolve(),
};

/** The apps that stay loaded on this machine, for the jobs of the local executor. */
export class Residency {
  readonly #workers: Workers | null;

  constructor(private readonly settings: ResidencySettings) {
    const { workers, environment, report } = settings;
    this.#workers = workers ? new Workers({ ...workers, environment, report }) : null;
  }

  /** Ids of the worker that a job has, which its processes are marked with. */
  workersOf(jobId: string): readonly string[] {
    return this.#workers?.idsOf(jobId) ?? [];
  }

  workers(): readonly WorkerInfo[] {
    return this.#workers?.loaded() ?? [];
  }

  /** The workers on these GPUs leave; one that has a job leaves after it. */
  async clear(gpus: readonly { readonly id: number; readonly uuid: string }[]): Promise<void> {
    const grant = { gpus: gpus.map(({ id }) => id), gpuUuids: gpus.map(({ uuid }) => uuid), cpuSlots: 0 };
    await this.#workers?.clear(grant, null, () => Number.NEGATIVE_INFINITY);
  }

  /** Ends the idle workers. */
  async endIdle(): Promise<void> {
    await this.#workers?.endIdle();
  }

  /** Ends the idle workers, and leaves the others, with their jobs, to the next server. */
  async close(): Promise<void> {
    await this.#workers?.close();
  }

  /** Why apps cannot stay loaded in the sandbox of this machine; null if they can. */
  async problem(): Promise<string | null> {
    const { sandbox, workers } = this.settings;
    return sandbox && workers && workers.idle > 0 ? await sandbox.jobMountsProblem() : null;
  }

  /**
   * How suitable a GPU is for a job that may use any: best if its app is loaded there, worst if another app has to leave.
   */
  rank(order: RunOrder, gpu: number): number {
    const workers = this.#workers;
    // Most machines have no workers, so the app's files need not be read.
    if (!workers || workers.loaded().length === 0) return 0;
    const name = order.resident?.({ gpus: [gpu], gpuUuids: [], cpuSlots: 0 })?.name ?? null;
    const { own, others } = workers.idleGpus(name, order.owner);
    if (own.includes(gpu)) return 0;
    return others.includes(gpu) ? 2 : 1;
  }

  /**
   * Chooses the worker of a job, if its app stays loaded, and begins to free its devices.
   * @param request how the job would be started without a worker
   */
  async assign(
    order: RunOrder,
    grant: Grant,
    request: Omit<RunRequest, 'command' | 'wrapper'>,
    booking: GpuBooking,
  ): Promise<Assignment> {
    const workers = this.#workers;
    if (!workers) return unassigned;
    const idle = this.settings.workers?.idle ?? 0;
    const asked = idle > 0 ? (order.resident?.(grant) ?? null) : null;
    const isAlone = asked !== null && (await this.problem()) !== null;
    const resident = isAlone ? null : asked;
    const cleared = (choice: WorkerChoice | null) =>
      workers.clear(grant, choice?.worker ?? null, booking.leftOf);
    if (!resident) {
      const words = isAlone ? ['where no app can stay loaded'] : [];
      return { ...unassigned, words, cleared: cleared(null) };
    }
    const wanted = await this.#workerOrder(order, grant, request, resident, idle, booking.share);
    const choice = await workers.choose(wanted, order.directory.id);
    const start = choice.worker?.isLoaded ? 'warm' : 'cold';
    return { resident, choice, start, words: [startWords[start]], cleared: cleared(choice) };
  }

  /**
   * The message from its runner to the worker; null without a worker, or if it cannot be started: then the command is
   * started.
   */
  async callOf(request: RunRequest, { resident, choice }: Assignment): Promise<WorkerCall | null> {
    if (!this.#workers || !resident || !choice) return null;
    try {
      const worker = await this.#workers.workerFor(choice, request.jobId);
      return workerCall(worker, resident, request, jobMarker);
    } catch (cause) {
      // A shortage is temporary; the caller tries again.
      if (isDiskFull(cause) || isShortage(cause)) throw cause;
      const what = `The app of job ${request.jobId} could not be kept loaded; it is started for this job only`;
      this.settings.report(what, cause);
      return null;
    }
  }

  /** A job has ended. Resolves when its worker, if any, can take another one or is gone. */
  async release(jobId: string): Promise<void> {
    await this.#workers?.release(jobId);
  }

  /** The settings that a job's worker is started with, which identify an existing worker with the same settings. */
  async #workerOrder(
    order: RunOrder,
    grant: Grant,
    request: Omit<RunRequest, 'command' | 'wrapper'>,
    resident: Resident,
    idle: number,
    gpuMemory: number | null,
  ): Promise<WorkerOrder> {
    const { command, watched, name, isShared } = resident;
    const { isSandboxed, filter, limits, inherited, killGrace } = request;
    const { gpus, gpuUuids } = grant;
    const { owner, directory } = order;
    const access = this.settings.sandbox ? resident.access() : null;
    const wrapper = this.#wrapper(order, grant, resident, access);
    const shared = { ...access?.environment, ...sharedEnvironment(request.environment, directory) };
    const inheritedValues = inherited.map((each) => [each, this.settings.environment[each]]);
    const content = JSON.stringify([shared, inheritedValues, limits, wrapper('/'), filter]);
    const devices = gpuUuids.length > 0 ? gpuUuids : gpus;
    return {
      command,
      wrapper,
      isSandboxed,
      filter,
      limits,
      inherited,
      killGrace,
      idle,
      name,
      owner,
      isShared,
      gpus,
      gpuUuids,
      gpuMemory,
      watched,
      environment: shared,
      sharedBy: JSON.stringify([command, devices, ...(isShared ? [] : [owner]), access?.network, gpuMemory]),
      content: createHash('sha256').update(content).digest('hex'),
      seen: await fingerprint(watched),
    };
  }

  /**
   * The words before the command of a worker, which put it into its sandbox, for its worker host's directory. Empty without
   * a sandbox.
   */
  #wrapper(
    order: RunOrder,
    grant: Grant,
    { command, watched }: Resident,
    access: JobAccess | null,
  ): (directory: string) => string[] {
    const { sandbox, limits, environment } = this.settings;
    if (!sandbox || !access) return () => [];
    const searchPath = environment.PATH ?? '';
    const { memory } = limits;
    const jobs = path.dirname(order.directory.path);
    return (directory) => {
      const { home, temporary, jobMounts } = workerFiles(directory);
      const files = { home, temporary, jobMounts: { directory: jobMounts, jobs }, watched };
      return [
        ...sandbox.wrapWorker({ ...files, command, grant, access, memory }, searchPath),
        ...limitWords(limits, searchPath),
      ];
    };
  }
}
