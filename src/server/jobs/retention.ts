import type { Report } from '../report.js';
import { Deadline } from './deadline.js';
import type { ExpiredJobs } from './expired-jobs.js';
import type { Job } from './job.js';
import type { Trash } from './trash.js';

/** Longest delay of a timer, in milliseconds. */
const longestTimer = 2 ** 31 - 1;

export interface RetentionDeps {
  readonly expired: ExpiredJobs;
  readonly trash: Trash;
  /** Milliseconds that a job is kept after its end, and after its last download. */
  readonly grace: number;
  readonly forget: (job: Job) => void;
  readonly report: Report;
}

/**
 * Removes each job when its grace period is over, but not during a download, nor while one could still be resumed; and
 * before that where somebody asks for it.
 */
export class Retention {
  readonly #timers = new Map<string, NodeJS.Timeout>();
  readonly #downloads = new Map<string, number>();
  /** Directories of jobs that were removed during a download, by id: they are deleted when it is over. */
  readonly #doomed = new Map<string, string>();

  constructor(private readonly deps: RetentionDeps) {}

  /** Starts, or restarts, the grace period of a job that has ended. */
  schedule(job: Job): void {
    job.expiry = new Deadline(this.deps.grace);
    this.#arm(job);
  }

  /**
   * Keeps a job from being removed. Returns a function that ends this, which may be called more than once. The job is then
   * kept for another grace period, so that a download that broke off can be resumed.
   */
  hold(job: Job): () => void {
    this.#downloads.set(job.id, (this.#downloads.get(job.id) ?? 0) + 1);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      const left = (this.#downloads.get(job.id) ?? 1) - 1;
      if (left > 0) this.#downloads.set(job.id, left);
      else this.#downloads.delete(job.id);
      if (left > 0) return;
      if (this.#timers.has(job.id)) this.schedule(job);
      const doomed = this.#doomed.get(job.id);
      if (this.#doomed.delete(job.id) && doomed !== undefined) void this.deps.trash.throwAway(doomed);
    };
  }

  /**
   * Removes a job that has ended, at once. A download under way is not cut: the files are deleted when it is over. Resolves
   * when they are gone, or will be.
   */
  async remove(job: Job): Promise<void> {
    clearTimeout(this.#timers.get(job.id));
    this.#timers.delete(job.id);
    this.#forget(job, true);
    if (this.#downloads.has(job.id)) this.#doomed.set(job.id, job.directory.path);
    else await this.deps.trash.throwAway(job.directory.path);
  }

  close(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }

  #arm(job: Job): void {
    clearTimeout(this.#timers.get(job.id));
    const left = Math.max(job.expiry?.left ?? 0, 0);
    const timer = setTimeout(
      () => (left <= longestTimer ? this.#expire(job) : this.#arm(job)),
      Math.min(left, longestTimer),
    );
    this.#timers.set(job.id, timer.unref());
  }

  #expire(job: Job): void {
    if (this.#downloads.has(job.id) || !this.#timers.delete(job.id)) return;
    this.#forget(job, false);
    void this.deps.trash.throwAway(job.directory.path);
  }

  /** From here on the job is gone for all who ask. Noted before its files go: the next start finishes a removal. */
  #forget(job: Job, isAsked: boolean): void {
    this.deps.forget(job);
    try {
      this.deps.expired.add(job.id, isAsked);
    } catch (cause) {
      this.deps.report(`Job ${job.id} could not be noted as gone`, cause);
    }
  }
}
