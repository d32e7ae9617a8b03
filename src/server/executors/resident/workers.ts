import path from 'node:path';
import type { JobStart } from '../../../contract/index.js';
import { isDiskFull, isShortage, namesIn } from '../../../files/index.js';
import type { RunRequest, WorkerCall } from '../../../runner/index.js';
import type { Report } from '../../report.js';
import type { Grant, Resident, RunOrder, WorkerInfo } from '../index.js';
import { fingerprint } from './fingerprint.js';
import { Worker, type WorkerHostSettings, type WorkerOrder } from './worker.js';
import { type JobFrame, type WorkerOrderSettings, workerCall, workerOrder } from './worker-order.js';
import { isWorkerId, killHost, readWorkerRequest, removeWorker } from './worker-records.js';

/** Milliseconds between two checks of idle workers. */
const checkInterval = 5000;
/** The share of the machine's memory that may be in use before idle apps leave. */
const maxMemoryUse = 0.9;

export interface WorkersSettings extends WorkerHostSettings, WorkerOrderSettings {
  /** The share of the machine's memory in use. */
  readonly memoryUse: () => number;
  readonly report: Report;
}

/** What is booked of the GPUs of a job. */
export interface GpuBooking {
  /** Bytes that the job takes of each; null if it has them to itself. */
  readonly share: number | null;
  /** Bytes of a GPU that no job has booked. */
  readonly leftOf: (gpu: number) => number;
}

/** An app that stays loaded, for one job. */
interface LoadedApp {
  readonly resident: Resident;
  /** What its worker has to be like. */
  readonly order: WorkerOrder;
  /** A running worker that is reserved for this job; null if one is started for it. */
  readonly worker: Worker | null;
}

/** What a job finds of its app. */
export interface Assignment {
  /** Null for an app that does not stay loaded. */
  readonly loaded: LoadedApp | null;
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

/**
 * The apps that stay loaded on this machine, for the jobs of the local executor: chooses one for a job, and ends those that are
 * idle for too long or whose GPUs are needed.
 */
export class Workers {
  readonly #workers = new Set<Worker>();
  /** Resolves once the workers of an earlier server are known. */
  readonly #recovered: Promise<unknown>;
  #timer: NodeJS.Timeout | undefined;
  readonly #idleTimers = new Map<Worker, NodeJS.Timeout>();

  constructor(private readonly settings: WorkersSettings) {
    const { directory } = settings;
    const left = namesIn(directory).filter(isWorkerId);
    this.#recovered = Promise.all(left.map((name) => this.#recover(path.join(directory, name))));
  }

  /** Why apps cannot stay loaded in the sandbox of this machine; null if they can. */
  async problem(): Promise<string | null> {
    const { sandbox, idle } = this.settings;
    return sandbox && idle > 0 ? await sandbox.jobMountsProblem() : null;
  }

  /**
   * How suitable a GPU is for a job that may use any: best if its app is loaded there, worst if another app has to leave.
   */
  rank(order: RunOrder, gpu: number): number {
    // Most machines have no workers, so the app's files need not be read.
    if (this.loaded().length === 0) return 0;
    const name = order.resident?.({ gpus: [gpu], gpuUuids: [], cpuSlots: 0 })?.name ?? null;
    const there = this.#free().filter(({ request }) => request.gpus.includes(gpu));
    const isOwn = ({ request }: Worker) =>
      request.name === name && (request.isShared || request.owner === order.owner);
    if (there.some(isOwn)) return 0;
    return there.length > 0 ? 2 : 1;
  }

  /** Chooses the worker of a job, if its app stays loaded, and begins to free its devices. */
  async assign(
    order: RunOrder,
    grant: Grant,
    frame: JobFrame,
    { share: gpuShare, leftOf }: GpuBooking,
  ): Promise<Assignment> {
    const resident = this.settings.idle > 0 ? (order.resident?.(grant) ?? null) : null;
    const isAlone = resident !== null && (await this.problem()) !== null;
    if (resident === null || isAlone) {
      const words = isAlone ? ['where no app can stay loaded'] : [];
      return { loaded: null, start: null, words, cleared: this.clear(grant, null, leftOf) };
    }
    const seen = await fingerprint(resident.watched);
    const wanted = workerOrder({ order, grant, frame, resident, gpuShare }, seen, this.settings);
    const worker = await this.choose(wanted, order.directory.id);
    const start = worker?.isLoaded ? 'warm' : 'cold';
    const cleared = this.clear(grant, worker, leftOf);
    return { loaded: { resident, order: wanted, worker }, start, words: [startWords[start]], cleared };
  }

  /**
   * The message from a job's runner to its worker; null without a worker, or if it cannot be started: then the command is
   * started.
   */
  async callOf(request: RunRequest, { loaded }: Assignment): Promise<WorkerCall | null> {
    if (!loaded) return null;
    try {
      const worker = loaded.worker ?? (await this.startFor(request.jobId, loaded.order));
      return workerCall(worker, loaded.resident, request);
    } catch (cause) {
      // A shortage is temporary; the caller tries again.
      if (isDiskFull(cause) || isShortage(cause)) throw cause;
      const what = `The app of job ${request.jobId} could not be kept loaded; it is started for this job only`;
      this.settings.report(what, cause);
      return null;
    }
  }

  /**
   * Chooses a worker for a job: if possible, a free worker for the same app and devices, of the job's owner or shared, that was
   * started with the same settings. Free workers that were started with other settings leave, because the app or a setting has
   * changed.
   */
  async choose(order: WorkerOrder, jobId: string): Promise<Worker | null> {
    await this.#recovered;
    const same = this.#free().filter(({ request }) => request.sharedBy === order.sharedBy);
    const isAsOrdered = ({ request }: Worker) =>
      request.content === order.content && request.seen === order.seen;
    for (const worker of same) if (!isAsOrdered(worker)) void worker.leave();
    const found = same.find(isAsOrdered);
    if (found) found.promised = jobId;
    return found ?? null;
  }

  /** Starts a worker for a job. @throws the system's error, or an Error if it does not come up */
  async startFor(jobId: string, order: WorkerOrder): Promise<Worker> {
    // A first attempt that failed may still have started a worker.
    const own = [...this.#workers].find((each) => each.promised === jobId);
    if (own) return own;
    const started = await Worker.start(order, this.settings);
    started.promised = jobId;
    this.#add(started);
    return started;
  }

  /**
   * Frees the GPUs of a job: makes the other workers on them leave, except workers that share the GPUs and still fit beside the
   * jobs, where the most recently used are kept first. Resolves when the leaving workers without a job are gone.
   * @param kept the worker of the job; null if it has none
   */
  async clear(
    { gpus, gpuUuids }: Pick<Grant, 'gpus' | 'gpuUuids'>,
    kept: Worker | null,
    leftOf: GpuBooking['leftOf'],
  ): Promise<void> {
    await this.#recovered;
    if (kept === null) this.#endForMemory();
    const isInTheWay = ({ request }: Worker) =>
      request.gpus.some((id) => gpus.includes(id)) ||
      request.gpuUuids.some((uuid) => gpuUuids.includes(uuid));
    let left = Math.min(...gpus.map(leftOf));
    const fits = ({ isUnused, request: { gpuMemory } }: Worker) => {
      // What a worker with a job takes is booked by the job. What an unused worker takes is counted here.
      const taken = isUnused ? gpuMemory : 0;
      if (gpuMemory === null || taken === null || taken > left) return false;
      left -= taken;
      return true;
    };
    const others = [...this.#workers].filter((each) => each !== kept && isInTheWay(each));
    const leaving = others.sort((a, b) => a.idleFor - b.idleFor).filter((each) => !fits(each));
    // A worker that still has a job leaves after it, without being awaited. A GPU is given to two jobs that do not share only if
    // the ids of GPUs have changed.
    await Promise.all(leaving.map((each) => (each.isUnused ? each.leave() : void each.leave())));
  }

  /** Ids of the worker that has this job, which its processes are marked with. */
  idsOf(jobId: string): string[] {
    return [...this.#workers].filter((each) => each.has(jobId)).map(({ request }) => request.id);
  }

  /** Releases the worker of a job that has ended. Resolves when the worker, if any, can take another job or is gone. */
  async release(jobId: string): Promise<void> {
    await this.#recovered;
    await Promise.all(
      [...this.#workers].filter((each) => each.has(jobId)).map((each) => each.release(jobId)),
    );
  }

  loaded(): WorkerInfo[] {
    return [...this.#workers]
      .filter((each) => each.isLoaded)
      .map(({ request: { name, owner, isShared, gpus } }) => ({ name, owner, isShared, gpus }));
  }

  /** Ends all idle workers. Resolves when they are gone. */
  async endIdle(): Promise<void> {
    await this.#recovered;
    await Promise.all(this.#free().map((each) => each.leave()));
  }

  /** Ends all idle workers, and leaves the others to the next server. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.endIdle();
    for (const each of this.#workers) each.detach();
  }

  #free(): Worker[] {
    return [...this.#workers].filter((each) => each.isFree);
  }

  #add(worker: Worker): void {
    this.#workers.add(worker);
    worker.on('change', () => this.#watchIdle(worker));
    void worker.gone.then(() => this.#workers.delete(worker));
    this.#timer ??= setInterval(() => void this.#check(), checkInterval).unref();
  }

  /** Ends a worker once it has been idle for the maximum time. */
  #watchIdle(worker: Worker): void {
    clearTimeout(this.#idleTimers.get(worker));
    this.#idleTimers.delete(worker);
    if (!worker.isFree) return;
    const end = () => {
      if (worker.isFree) void worker.leave();
    };
    this.#idleTimers.set(worker, setTimeout(end, this.settings.idle - worker.idleFor).unref());
  }

  /** Ends workers whose app has changed, and one if memory runs short. */
  async #check(): Promise<void> {
    this.#endForMemory();
    for (const worker of this.#free()) {
      const { watched, seen } = worker.request;
      if ((await fingerprint(watched)) !== seen && worker.isFree) void worker.leave();
    }
  }

  /** If too much memory is in use, ends the worker that has been idle the longest. */
  #endForMemory(): void {
    if (this.settings.memoryUse() <= maxMemoryUse) return;
    const [longestIdle] = this.#free().sort((a, b) => b.idleFor - a.idleFor);
    if (longestIdle) void longestIdle.leave();
  }

  /** Reconnects to a worker host of an earlier server, or ends it if it cannot be reached. */
  async #recover(directory: string): Promise<void> {
    const request = readWorkerRequest(directory);
    try {
      if (request?.id !== path.basename(directory)) throw new Error('It has no record');
      const worker = await Worker.attach(directory, request);
      this.#add(worker);
      this.#watchIdle(worker);
      if (this.settings.idle === 0) void worker.leave();
    } catch {
      killHost(directory);
      await removeWorker(directory);
    }
  }
}
