import { createHash } from 'node:crypto';
import path from 'node:path';
import { contentStamp, namesIn, TimeSlice, type TreeEntry, treeEntries } from '../../../files/index.js';
import type { Report } from '../../report.js';
import type { Grant, WorkerInfo } from '../index.js';
import { Worker, type WorkerHostSettings, type WorkerOrder } from './worker.js';
import { isWorkerId, killHost, readWorkerRequest, removeWorker } from './worker-records.js';

/** Maximum number of files and directories that are examined: an app with more of them contains data. */
const maxFiles = 5000;

/** A text that changes with a file. The times of directories are left out, because skipped files change them. */
function describe({ file, stats, link }: TreeEntry): string {
  if (stats === null) return JSON.stringify([file, link, 'cannot be read']);
  if (stats.isDirectory()) return JSON.stringify([file, link, 'directory']);
  return JSON.stringify([file, link, ...contentStamp(stats)]);
}

/**
 * A hash that changes with these files and directories: names, sizes and times of their files, and the targets of links.
 * Pauses now and then, because a job waits for this while the server has other work.
 */
export async function fingerprint(paths: readonly string[]): Promise<string> {
  const hash = createHash('sha256');
  const slice = new TimeSlice();
  let left = maxFiles;
  for (const start of paths) {
    for (const entry of treeEntries(start)) {
      if (left === 0) break;
      left -= 1;
      hash.update(`${describe(entry)}\n`);
      await slice.pause();
    }
  }
  return hash.digest('hex');
}

/** Milliseconds between two checks of idle workers. */
const checkInterval = 5000;
/** The share of the machine's memory that may be in use before idle apps leave. */
const maxMemoryUse = 0.9;

export interface WorkersSettings extends WorkerHostSettings {
  /** Milliseconds after which an idle worker leaves; 0 means that apps are started anew for each job. */
  readonly idle: number;
  /** The share of the machine's memory in use. */
  readonly memoryUse: () => number;
  readonly report: Report;
}

/** What is booked of the GPUs of a job. */
export interface GpuBooking {
  /** Bytes that the job takes of each; null if it has them for itself. */
  readonly share: number | null;
  /** Bytes of a GPU that no job has booked. */
  readonly leftOf: (gpu: number) => number;
}

/** The worker of a job. */
export interface WorkerChoice {
  readonly order: WorkerOrder;
  /** A running worker that is reserved for this job; null if one is started for it. */
  readonly worker: Worker | null;
}

/** The apps that are loaded: chooses one for a job, and ends those that are idle for too long or whose GPUs are needed. */
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

  /**
   * Chooses a worker for a job: a free one of the same app and devices, of its owner or shared, that was started with the same settings, if
   * there is one. Those that were started with other settings leave, because the app or a setting has changed.
   */
  async choose(order: WorkerOrder, jobId: string): Promise<WorkerChoice> {
    await this.#recovered;
    const same = this.#free().filter(({ request }) => request.sharedBy === order.sharedBy);
    const isAsOrdered = ({ request }: Worker) =>
      request.content === order.content && request.seen === order.seen;
    for (const worker of same) if (!isAsOrdered(worker)) void worker.leave();
    const found = same.find(isAsOrdered);
    if (found) found.promised = jobId;
    return { order, worker: found ?? null };
  }

  /** The chosen worker, started if there is none. @throws the system's error, or an Error if it does not come up */
  async workerFor({ order, worker }: WorkerChoice, jobId: string): Promise<Worker> {
    // A failed first attempt may still have started one.
    const own = worker ?? [...this.#workers].find((each) => each.promised === jobId);
    if (own) return own;
    const started = await Worker.start(order, this.settings);
    started.promised = jobId;
    this.#add(started);
    return started;
  }

  /**
   * Frees the GPUs of a job: other workers on them leave, except those that share them and still fit beside the jobs, first
   * the ones that were used last. Resolves when they are gone.
   * @param kept the worker of the job
   */
  async clear({ gpus, gpuUuids }: Grant, kept: Worker | null, leftOf: GpuBooking['leftOf']): Promise<void> {
    await this.#recovered;
    if (kept === null) this.#endForMemory();
    const isInTheWay = ({ request }: Worker) =>
      request.gpus.some((id) => gpus.includes(id)) ||
      request.gpuUuids.some((uuid) => gpuUuids.includes(uuid));
    let left = Math.min(...gpus.map(leftOf));
    const fits = ({ isUnused, request: { gpuMemory } }: Worker) => {
      // What its job takes is booked. Another one's is counted from here on.
      const taken = isUnused ? gpuMemory : 0;
      if (gpuMemory === null || taken === null || taken > left) return false;
      left -= taken;
      return true;
    };
    const others = [...this.#workers].filter((each) => each !== kept && isInTheWay(each));
    const leaving = others.sort((a, b) => a.idleFor - b.idleFor).filter((each) => !fits(each));
    // One that still has a job leaves after it. A GPU is given to two jobs that do not share only if the ids of GPUs have changed.
    await Promise.all(leaving.map((each) => (each.isUnused ? each.leave() : void each.leave())));
  }

  /** Ids of the worker that has this job. */
  idsOf(jobId: string): string[] {
    return [...this.#workers].filter((each) => each.has(jobId)).map(({ request }) => request.id);
  }

  /** A job has ended. Resolves when its worker, if any, can take another one or is gone. */
  async release(jobId: string): Promise<void> {
    await this.#recovered;
    await Promise.all(
      [...this.#workers].filter((each) => each.has(jobId)).map((each) => each.release(jobId)),
    );
  }

  /** Ids of the GPUs on which this app is loaded for this owner or all, and of those on which other apps are loaded and idle. */
  idleGpus(name: string | null, owner: string | null): { readonly own: number[]; readonly others: number[] } {
    const isOwn = ({ request }: Worker) =>
      request.name === name && (request.isShared || request.owner === owner);
    const gpusOf = (workers: readonly Worker[]) => workers.flatMap(({ request }) => request.gpus);
    const free = this.#free();
    return { own: gpusOf(free.filter(isOwn)), others: gpusOf(free.filter((each) => !isOwn(each))) };
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

  /** Ends a worker once it has been idle for as long as it may. */
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

  /** While too much memory is in use, the worker that has been idle the longest leaves. */
  #endForMemory(): void {
    if (this.settings.memoryUse() <= maxMemoryUse) return;
    const [longestIdle] = this.#free().sort((a, b) => b.idleFor - a.idleFor);
    if (longestIdle) void longestIdle.leave();
  }

  /** Finds a worker host of an earlier server again. One that cannot be reached is ended. */
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
