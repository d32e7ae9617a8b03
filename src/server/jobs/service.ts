import { ServiceError } from '../../contract/errors.js';
import type { KillReply } from '../../contract/job.js';
import { Admission, type Slot } from './admission.js';
import type { JobDirectory } from './directory.js';
import type { ExpiredJobs } from './expired.js';
import { Job } from './job.js';
import { Lifecycle, type LifecycleDeps } from './lifecycle.js';
import type { JobRequest } from './record.js';
import { Retention } from './retention.js';
import type { JobStore } from './store.js';

export interface JobServiceDeps extends LifecycleDeps {
  readonly store: JobStore;
  readonly expired: ExpiredJobs;
  /** Most jobs that may be active at once. */
  readonly maxJobs: number;
}

/** What becomes of the jobs when the server stops. */
export type OnExit = 'kill' | 'keep';

/** The one owner of the jobs' state. It knows no transport. */
export class JobService {
  readonly #jobs = new Map<string, Job>();
  readonly #lives = new Map<string, { readonly lifecycle: Lifecycle; readonly end: Promise<void> }>();
  readonly #admission: Admission;
  readonly #retention: Retention;
  #isClosing = false;

  constructor(private readonly deps: JobServiceDeps) {
    this.#admission = new Admission(
      deps.store,
      deps.maxJobs,
      () => this.active,
      (directory, request, notes) => this.#accept(directory, request, notes),
    );
    this.#retention = new Retention(deps.expired, (job) => this.#forget(job), deps.report);
  }

  /**
   * Finds the jobs of the data directory again: ended ones are kept for their grace, the others go on. All are
   * known before this first waits, so that no request can come in between.
   */
  async recover(): Promise<{ readonly ended: number; readonly active: number }> {
    const { jobs, leftovers } = this.deps.store.scan(this.deps.report);
    const isExpired = (id: string) => this.deps.expired.when(id) !== undefined;
    const found = jobs
      .filter(({ directory }) => !isExpired(directory.id))
      .map(({ directory, record }) => Job.restore(directory, record));
    for (const job of found) {
      this.#jobs.set(job.id, job);
      this.#admission.remember(job);
    }
    const ended = found.filter((job) => job.isFinal);
    for (const job of ended) {
      // Nobody could fetch it while there was no server: the clock starts anew.
      job.expireAt(new Date(Date.now() + this.deps.settings.grace));
      this.#retention.schedule(job);
    }
    const active = found.filter((job) => !job.isFinal);
    // What runs holds its devices before anything that waits is looked at.
    const running = active.filter((job) => job.state === 'running');
    for (const job of [...running, ...active.filter((each) => !running.includes(each))]) this.#live(job);
    const gone = [...leftovers, ...jobs.map(({ directory }) => directory).filter(({ id }) => isExpired(id))];
    await Promise.all(gone.map((directory) => directory.remove()));
    return { ended: ended.length, active: active.length };
  }

  /**
   * Takes a place among the active jobs for an upload.
   * @throws ServiceError `busy` or `shuttingDown`
   */
  reserve(): Slot {
    this.#refuseWhileClosing();
    return this.#admission.reserve();
  }

  #refuseWhileClosing(): void {
    if (this.#isClosing) {
      throw new ServiceError('shuttingDown', 'The server is shutting down; submit again later');
    }
  }

  /** Runs a submission once for each idempotency key; a repeat is given the first one's job. */
  submitOnce(key: string | null, submit: () => Promise<Job>): Promise<Job> {
    return this.#admission.once(key, submit);
  }

  /** @throws ServiceError `unknownJob` or `expired` */
  get(id: string): Job {
    const job = this.#jobs.get(id);
    if (job) return job;
    const when = this.deps.expired.when(id);
    if (when !== undefined) {
      throw new ServiceError(
        'expired',
        `Job ${id} expired at ${when}: it and its result are removed; submit it again`,
      );
    }
    throw new ServiceError('unknownJob', 'Unknown job_id');
  }

  /** How many jobs have not ended. */
  get active(): number {
    return this.#lives.size;
  }

  /** Newest first. */
  list(): Job[] {
    return [...this.#jobs.values()].reverse();
  }

  /** Ends a job in whatever state; resolves when no process of it is left. Idempotent. */
  async kill(job: Job): Promise<KillReply> {
    const life = this.#lives.get(job.id);
    if (job.isFinal || !life) return { job_id: job.id, status: job.state, message: 'Job not running' };
    life.lifecycle.kill();
    await life.end;
    const message = job.state === 'killed' ? 'Job killed' : 'Job ended before it could be killed';
    return { job_id: job.id, status: job.state, message };
  }

  /** Keeps a result from expiring while it is being sent; returns what lets it go. */
  holdResult(job: Job): () => void {
    return this.#retention.hold(job);
  }

  /** No new jobs from here on; the active ones are killed, or left to the next server. */
  async close(onExit: OnExit): Promise<void> {
    this.#isClosing = true;
    this.#retention.close();
    if (onExit === 'kill') await Promise.all([...this.#jobs.values()].map((job) => this.kill(job)));
  }

  #accept(directory: JobDirectory, request: JobRequest, notes: readonly string[]): Job {
    this.#refuseWhileClosing();
    directory.log(`Remote job ${directory.id} accepted: ${request.operation} on ${request.app}`);
    for (const note of notes) directory.log(note);
    const job = Job.create(directory, request);
    this.#jobs.set(job.id, job);
    this.#live(job);
    return job;
  }

  #live(job: Job): void {
    const lifecycle = new Lifecycle(job, this.deps);
    const end = lifecycle.run().finally(() => {
      this.#lives.delete(job.id);
      if (!this.#isClosing) this.#retention.schedule(job);
    });
    this.#lives.set(job.id, { lifecycle, end });
  }

  #forget(job: Job): void {
    this.#jobs.delete(job.id);
    this.#admission.forget(job);
  }
}
