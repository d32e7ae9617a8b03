import { setTimeout as delay } from 'node:timers/promises';
import { ServiceError } from '../../contract/errors.js';
import { setAside } from '../data-directory/set-aside.js';
import type { Executor } from '../executors/index.js';
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

type Damaged = Extract<Found, { kind: 'damaged' }>;
type Unreadable = Damaged | Extract<Found, { kind: 'unreadable' }>;

/**
 * Jobs whose records cannot be read. A job with a damaged record goes on as it was accepted if that record is left, and is
 * set aside otherwise, once its command does not run any more. A job whose record gives a read error stays where it is and
 * is tried again, since a disk may fail only for a moment. Running commands go on meanwhile, and their devices stay reserved.
 */
export class UnreadableJobs {
  readonly #waiting = new Map<string, JobDirectory>();
  #isClosing = false;

  constructor(private readonly deps: UnreadableDeps) {}

  /**
   * Sets a job aside, or keeps it for another try.
   * @returns the job as it was accepted if its record is damaged, as by a power cut; then it is not kept here
   */
  add(unreadable: Unreadable): StoredJob | undefined {
    const { directory, why } = unreadable;
    if (unreadable.kind === 'damaged' && !this.deps.executor.isRunning(directory)) {
      return this.#mend(unreadable);
    }
    this.deps.report(`Job ${directory.id} is left as it is until it can be read`, why);
    this.#waiting.set(directory.id, directory);
    return undefined;
  }

  /** @returns the job as it was accepted; undefined if that is not known, and the job is set aside */
  #mend({ directory, why, accepted }: Omit<Damaged, 'kind'>): StoredJob | undefined {
    const { store, report } = this.deps;
    if (accepted) {
      report(`Job ${directory.id} goes on as it was accepted`, why);
      return { directory, record: accepted };
    }
    setAside(store.dataDirectory, directory.path, why, report);
    return undefined;
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
    const { store, executor, found } = this.deps;
    const release = executor.hold(directory);
    for (;;) {
      await delay(pause, undefined, { ref: false });
      if (this.#isClosing) return;
      const again = store.look(directory.id);
      if (again.kind === 'unreadable') continue;
      if (again.kind !== 'job' && executor.isRunning(directory)) continue;
      this.#waiting.delete(directory.id);
      const accepted = again.kind === 'damaged' ? again.accepted : undefined;
      const why = 'its job.json is not a record';
      const job = again.kind === 'job' ? again : this.#mend({ directory, why, accepted });
      // The job reserves its devices itself before they are released here.
      if (job) found(job);
      release();
      return;
    }
  }
}
