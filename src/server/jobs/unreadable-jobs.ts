import type { Executor } from '../executors/executor.js';
import type { JobDirectory } from './directory.js';
import type { Scheduler } from './scheduler.js';
import { setAside } from './set-aside.js';
import type { JobStore, StoredJob } from './store.js';
import type { Report } from './trash.js';

export interface UnreadableDeps {
  readonly store: JobStore;
  readonly executor: Executor;
  readonly scheduler: Scheduler;
  readonly report: Report;
  /** Takes over a job whose record could be read after all. */
  readonly found: (job: StoredJob) => void;
}

/**
 * Jobs whose records cannot be read. One that has ended is set aside. A command that runs goes on, and keeps its GPUs
 * from others: when it has ended the record is read once more, as a disk may have failed for a moment only.
 */
export class UnreadableJobs {
  readonly #running: JobDirectory[] = [];

  constructor(private readonly deps: UnreadableDeps) {}

  /** Sets it aside, unless its command runs. */
  add(directory: JobDirectory, why: string): void {
    const { store, executor, report } = this.deps;
    if (!executor.isRunning(directory.path)) {
      setAside(store.dataDirectory, directory.path, why, report);
      return;
    }
    report(
      `Job ${directory.id} runs on, but nothing is known of it: it is looked at again when it has ended`,
      why,
    );
    this.#running.push(directory);
  }

  /** Watches what runs, from here on. */
  resume(): void {
    for (const directory of this.#running) void this.#watch(directory);
  }

  /** Ends what runs: the server stops, and its jobs with it. */
  async stop(): Promise<void> {
    for (const { path } of this.#running) this.deps.executor.stop(path);
    await Promise.all(this.#running.map(({ path, id }) => this.deps.executor.wait(path, id)));
  }

  async #watch(directory: JobDirectory): Promise<void> {
    const { store, executor, scheduler, report, found } = this.deps;
    const gpus = executor.gpusOf(directory.path);
    // Which GPUs it holds is not to be known: none of them can be given to another job while it runs.
    if (gpus === undefined) executor.stop(directory.path);
    const grant = { ...(gpus ?? { gpus: [], gpuUuids: [] }), cpuSlots: 0 };
    scheduler.adopt(grant);
    await executor.wait(directory.path, directory.id);
    scheduler.release(grant);
    this.#running.splice(this.#running.indexOf(directory), 1);
    const again = await store.look(directory.id);
    if (again.kind === 'job') found(again);
    else setAside(store.dataDirectory, directory.path, 'its job.json cannot be read', report);
  }
}
