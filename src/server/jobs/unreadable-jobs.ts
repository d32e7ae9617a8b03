import { setTimeout as delay } from 'node:timers/promises';
import { ServiceError } from '../../contract/errors.js';
import { setAside } from '../data-directory/set-aside.js';
import type { Executor } from '../executors/executor.js';
import type { Report } from '../report.js';
import type { JobDirectory } from './job-directory.js';
import type { Found, JobStore, StoredJob } from './store.js';

/** Milliseconds between two tries to read a record. */
const pause = 2000;

export interface UnreadableDeps {
  readonly store: JobStore;
  readonly executor: Executor;
  readonly report: Report;
  /** Called with a job whose record could be read after all. */
  readonly found: (job: StoredJob) => void;
}

type Unreadable = Extract<Found, { kind: 'damaged' | 'unreadable' }>;

/**
 * Jobs whose records cannot be read. A job with a damaged record is set aside once its command does not run any more. A job
 * whose record gives a read error stays where it is and is tried again, since a disk may fail only for a moment. Running
 * commands go on meanwhile, and their devices stay reserved.
 */
export class UnreadableJobs {
  readonly #waiting = new Map<string, JobDirectory>();
  #isClosing = false;

  constructor(private readonly deps: UnreadableDeps) {}

  /** Sets a job aside, or keeps it for another try. */
  add({ kind, directory, why }: Unreadable): void {
    const { store, executor, report } = this.deps;
    if (kind === 'damaged' && !executor.isRunning(directory)) {
      setAside(store.dataDirectory, directory.path, why, report);
      return;
    }
    report(`Job ${directory.id} is left as it is until it can be read`, why);
    this.#waiting.set(directory.id, directory);
  }

  /** @throws ServiceError for a job that exists but cannot be read */
  check(id: string): void {
    if (!this.#waiting.has(id)) return;
    throw new ServiceError(
      'unreadableJob',
      `The record of job ${id} cannot be read at the moment; ask again later`,
    );
  }

  /** From here on, tries to read them again and again. */
  resume(): void {
    for (const directory of this.#waiting.values()) void this.#watch(directory);
  }

  /** Ends their commands, when the server stops and its jobs with it. */
  async stop(): Promise<void> {
    this.#isClosing = true;
    const { executor } = this.deps;
    const running = [...this.#waiting.values()].filter((each) => executor.isRunning(each));
    await Promise.all(running.map((each) => executor.stop(each)));
  }

  async #watch(directory: JobDirectory): Promise<void> {
    const { store, executor, report, found } = this.deps;
    const release = executor.hold(directory);
    for (;;) {
      await delay(pause, undefined, { ref: false });
      if (this.#isClosing) return;
      const again = store.look(directory.id);
      if (again.kind === 'unreadable') continue;
      if (again.kind !== 'job' && executor.isRunning(directory)) continue;
      this.#waiting.delete(directory.id);
      // The job reserves its devices itself before they are released here.
      if (again.kind === 'job') found(again);
      else setAside(store.dataDirectory, directory.path, 'its job.json is not a record', report);
      release();
      return;
    }
  }
}
