import type { ExpiredJobs } from './expired.js';
import type { Job } from './job.js';

/** Longest time that a timer can count, in milliseconds. */
const longestTimer = 2 ** 31 - 1;

/** Removes each job when its grace period is over, but never under a download. */
export class Retention {
  readonly #timers = new Map<string, NodeJS.Timeout>();
  readonly #downloads = new Map<string, number>();

  constructor(
    private readonly expired: ExpiredJobs,
    private readonly forget: (job: Job) => void,
    private readonly report: (problem: string, cause: unknown) => void,
  ) {}

  /** Starts, or moves, the clock of a job that has ended. */
  schedule(job: Job): void {
    clearTimeout(this.#timers.get(job.id));
    const left = Date.parse(job.record.expiresAt ?? '') - Date.now();
    const isNow = left <= longestTimer;
    const timer = setTimeout(
      () => (isNow ? this.#expire(job) : this.schedule(job)),
      Math.min(Math.max(left, 0), longestTimer),
    );
    this.#timers.set(job.id, timer.unref());
  }

  /** Keeps a job from being removed; returns what lets it go again, which may be called more than once. */
  hold(job: Job): () => void {
    this.#downloads.set(job.id, (this.#downloads.get(job.id) ?? 0) + 1);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      const left = (this.#downloads.get(job.id) ?? 1) - 1;
      if (left > 0) this.#downloads.set(job.id, left);
      else this.#downloads.delete(job.id);
      if (Date.parse(job.record.expiresAt ?? '') <= Date.now()) this.#expire(job);
    };
  }

  close(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
  }

  #expire(job: Job): void {
    if (this.#downloads.has(job.id) || !this.#timers.delete(job.id)) return;
    this.forget(job);
    try {
      // Noted before it is removed: a server that dies in between finishes the removal at its next start.
      this.expired.add(job.id);
    } catch (cause) {
      this.report(`Job ${job.id} could not be noted as expired`, cause);
    }
    job.directory.remove().catch((cause) => this.report(`Job ${job.id} could not be removed`, cause));
  }
}
