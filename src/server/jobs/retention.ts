import { spellDuration } from '../../contract/duration.js';
import { FieldError } from '../../contract/errors.js';
import { type FieldValue, mostTime } from '../../contract/fields.js';
import { secondsUntil } from '../../files/boot-clock.js';
import type { GoneCause } from '../events.js';
import type { Report } from '../report.js';
import { Deadline } from './deadline.js';
import type { ExpiredJobs } from './expired-jobs.js';
import type { Job } from './job.js';
import type { Trash } from './trash.js';

/** Longest delay of a timer, in milliseconds. */
const longestTimer = 2 ** 31 - 1;

/** Milliseconds by which the time of a job is prolonged at least while it is downloaded. */
const shortestProlonging = 1000;

export interface RetentionDeps {
  readonly expired: ExpiredJobs;
  readonly trash: Trash;
  /** Milliseconds that a job is kept at least: after its end, after its last download, and after a start. */
  readonly grace: number;
  /** Milliseconds that a job is kept at most after its end, if that is more. */
  readonly maxKeep: number;
  readonly forget: (job: Job, cause: GoneCause) => void;
  readonly report: Report;
}

/**
 * Removes each job when its time is over, but not during a download, nor while one could still be resumed; and
 * before that where somebody asks for it.
 */
export class Retention {
  readonly #timers = new Map<string, NodeJS.Timeout>();
  readonly #downloads = new Map<string, number>();
  /** Directories of jobs that were removed during a download, by id: they are deleted when it is over. */
  readonly #doomed = new Map<string, string>();

  constructor(private readonly deps: RetentionDeps) {}

  /**
   * Seconds that a new job is kept after its end.
   * @param asked the value of the field of that name; undefined asks for the grace period
   * @throws FieldError if that is more than this server allows
   */
  keepFor(field: string, asked: FieldValue | undefined): number {
    const { grace, maxKeep } = this.deps;
    const [least, most] = [grace / 1000, Math.max(grace, maxKeep) / 1000];
    if (asked === mostTime) return most;
    const seconds = Number(asked ?? 0);
    if (seconds > most) {
      const problem = `is at most ${spellDuration(most)} on this server, got ${spellDuration(seconds)}`;
      throw new FieldError(field, problem);
    }
    return Math.max(seconds, least);
  }

  /** Starts the time of a job that has just ended. */
  schedule(job: Job): void {
    this.#keep(job, this.#lengthOf(job));
  }

  /**
   * Starts the time of a job that ended under an earlier server: as long as it was told at its end, and at least a grace
   * period, since nobody could fetch a result while there was no server. After a boot of the machine only the wall clock is
   * left to count by. One that was set forward meanwhile shortens nothing within a boot, and one that was set back does not
   * keep a job for longer than it asked for.
   */
  restore(job: Job): void {
    const { expiresAt, expiresAtBootTime } = job.record;
    const byWall = expiresAt === null ? 0 : Date.parse(expiresAt) - Date.now();
    const byBoot = 1000 * ((expiresAtBootTime && secondsUntil(expiresAtBootTime)) ?? 0);
    const promised = Math.min(Math.max(byWall, byBoot), this.#lengthOf(job));
    this.#keep(job, Math.max(this.deps.grace, promised));
  }

  /**
   * Keeps a job from being removed. Returns a function that ends this, which may be called more than once. The job is then
   * kept for another grace period at least, so that a download that broke off can be resumed.
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
      if (this.#timers.has(job.id)) this.#keep(job, Math.max(this.deps.grace, job.expiry?.left ?? 0));
      const doomed = this.#doomed.get(job.id);
      if (this.#doomed.delete(job.id) && doomed !== undefined) void this.deps.trash.throwAway(doomed);
    };
  }

  /** Whether a job may go before its time to make room: it was fetched, and is not being downloaded again. */
  mayGo(job: Job): boolean {
    return job.record.fetchedAt !== null && this.#timers.has(job.id) && !this.#downloads.has(job.id);
  }

  /**
   * Removes a job that has ended, at once. A download under way is not cut: the files are deleted when it is over. Resolves
   * when they are gone, or will be.
   */
  async remove(job: Job, cause: GoneCause = 'removed'): Promise<void> {
    clearTimeout(this.#timers.get(job.id));
    this.#timers.delete(job.id);
    this.#forget(job, cause);
    if (this.#downloads.has(job.id)) this.#doomed.set(job.id, job.directory.path);
    else await this.deps.trash.throwAway(job.directory.path);
  }

  close(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }

  /** Milliseconds that a job is kept after its end. */
  #lengthOf(job: Job): number {
    return Math.max(this.deps.grace, (job.request.keep ?? 0) * 1000);
  }

  /** @param length milliseconds from now on */
  #keep(job: Job, length: number): void {
    job.expiry = new Deadline(length);
    this.#arm(job);
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
    // It is kept until a grace period after the last byte of the download, so its time is prolonged.
    if (this.#downloads.has(job.id)) {
      this.#keep(job, Math.max(this.deps.grace, shortestProlonging));
    } else if (this.#timers.delete(job.id)) {
      this.#forget(job, 'expired');
      void this.deps.trash.throwAway(job.directory.path);
    }
  }

  /** From here on the job is gone for all who ask. Noted before its files go: the next start finishes a removal. */
  #forget(job: Job, cause: GoneCause): void {
    this.deps.forget(job, cause);
    try {
      this.deps.expired.add(job.id, cause, job.request.owner);
    } catch (fault) {
      this.deps.report(`Job ${job.id} could not be noted as gone`, fault);
    }
  }
}
