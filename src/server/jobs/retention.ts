import { type Owner, ownerInWords } from '../../access/index.js';
import { counted, ServiceError } from '../../contract/index.js';
import { type Clock, secondsUntil } from '../../files/index.js';
import type { GoneCause, ServerEvents } from '../events.js';
import type { Report } from '../report.js';
import type { ExpiredJobs } from './expired-jobs.js';
import { Deadline, type Job } from './job.js';
import type { JobTable } from './job-table.js';
import type { Trash } from './trash.js';

/** Longest delay of a timer, in milliseconds. */
const maxTimerDelay = 2 ** 31 - 1;

/** Shortest extension, in milliseconds, when a job's time is prolonged during a download. */
const shortestProlonging = 1000;

/** Something that may be removed when the disk is short of space. */
export interface Evictable {
  readonly owner: Owner;
  /** The job whose files these are; absent for an upload. */
  readonly id?: string;
  /** Bytes of the disk that this frees. */
  readonly bytes: number;
  /** Removes it. Resolves when the bytes are free. */
  readonly remove: () => Promise<void>;
}

export interface RetentionDeps {
  readonly jobs: JobTable;
  readonly expired: ExpiredJobs;
  readonly trash: Trash;
  /** Minimum time in milliseconds that a job is kept after its end, after its last download, and after a server start. */
  readonly grace: number;
  /** Maximum number of ended jobs that an owner may keep. */
  readonly maxKeptJobs: number;
  readonly events: ServerEvents;
  readonly clock: Clock;
  readonly report: Report;
}

/**
 * Removes each job when its time is up, but not during a download or while one could still be resumed; or earlier on
 * request.
 */
export class Retention {
  /** Functions that cancel the timers of jobs, by id. */
  readonly #timers = new Map<string, () => void>();
  /** How many downloads of a job are in progress, and whether it was removed meanwhile. */
  readonly #downloads = new Map<string, { count: number; isRemoved: boolean }>();

  constructor(private readonly deps: RetentionDeps) {}

  /** Starts the retention period of a job that has just ended. */
  schedule(job: Job): void {
    this.#keep(job, this.#lengthOf(job));
  }

  /**
   * Starts the retention period of a job that ended under an earlier server: as announced at its end, but at least a grace
   * period, since nobody could fetch a result while there was no server. After a reboot, only the wall clock can be used. Within
   * a boot, a clock that was set forward shortens nothing; one that was set back keeps no job longer than requested.
   */
  restore(job: Job): void {
    const { expiresAt, expiresAtBootTime } = job.record;
    const { clock } = this.deps;
    const byWall = expiresAt === null ? 0 : Date.parse(expiresAt) - clock.now();
    const byBoot = 1000 * ((expiresAtBootTime && secondsUntil(clock, expiresAtBootTime)) ?? 0);
    const promised = Math.min(Math.max(byWall, byBoot), this.#lengthOf(job));
    this.#keep(job, Math.max(this.deps.grace, promised));
  }

  /**
   * Keeps a job from being removed. Returns a function that ends this and may be called repeatedly. The job is then kept for at
   * least another grace period, so that an interrupted download can be resumed.
   */
  delayExpiry(job: Job): () => void {
    const downloads = this.#downloads.get(job.id) ?? { count: 0, isRemoved: false };
    downloads.count += 1;
    this.#downloads.set(job.id, downloads);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      downloads.count -= 1;
      if (downloads.count > 0) return;
      this.#downloads.delete(job.id);
      if (this.#timers.has(job.id)) this.#keep(job, Math.max(this.deps.grace, job.expiry?.left ?? 0));
      if (downloads.isRemoved) void this.deps.trash.throwAway(job.directory.path);
    };
  }

  /**
   * Which of these jobs may be removed early, oldest first: jobs whose results were fetched, and failed or killed jobs whose
   * files still exist. Jobs that are being downloaded are left out.
   */
  #early(jobs: readonly Job[]): { readonly fetched: Job[]; readonly failed: Job[] } {
    const ended = ({ record }: Job) => record.finishedAt ?? record.createdAt;
    const idle = jobs
      .filter((job) => this.#timers.has(job.id) && !this.#downloads.has(job.id))
      .sort((a, b) => (ended(a) < ended(b) ? -1 : 1));
    const fetched = idle.filter(({ record }) => record.fetchedAt !== null);
    const failed = idle.filter(
      (job) => job.record.fetchedAt === null && job.state !== 'done' && !job.isCleared,
    );
    return { fetched, failed };
  }

  /** What may be removed when the disk is short of space: fetched jobs first, then the files of failed ones. */
  evictable(): Evictable[] {
    const { jobs, trash } = this.deps;
    const { fetched, failed } = this.#early([...jobs.values()]);
    const about = (job: Job) => ({ id: job.id, owner: job.request.owner, bytes: job.keptBytes ?? 0 });
    return [
      ...fetched.map((job) => ({ ...about(job), remove: () => this.remove(job, 'fetched') })),
      ...failed.map((job) => ({
        ...about(job),
        remove: async () => {
          job.clear();
          await trash.discardWritten(job.directory);
          jobs.measure(job);
        },
      })),
    ];
  }

  /**
   * Makes sure that one more job of an owner can be kept. If necessary, removes the oldest job whose result was fetched, or else
   * the oldest that failed.
   * @param ended how many jobs of this owner have ended
   * @throws ServiceError `keptFull`
   */
  async keepFewer(owner: Owner, ended: number): Promise<void> {
    const { maxKeptJobs, jobs } = this.deps;
    if (ended < maxKeptJobs) return;
    const { fetched, failed } = this.#early(
      [...jobs.values()].filter(({ request }) => request.owner === owner),
    );
    const [oldest] = fetched.length > 0 ? fetched : failed;
    if (oldest) {
      await this.remove(oldest, fetched.length > 0 ? 'fetched' : undefined);
      return;
    }
    const detail = `${counted(maxKeptJobs, 'job')} of ${ownerInWords(owner)} are kept with results that nobody has fetched, the most there may be; 'remote-app rm JOB...' removes jobs`;
    throw new ServiceError('keptFull', detail);
  }

  /**
   * Removes a job that has ended, at once. A download in progress is not interrupted: the files are deleted when it is over.
   * Resolves when the files are gone, or will be deleted after the download.
   */
  async remove(job: Job, cause: GoneCause = 'removed'): Promise<void> {
    this.#timers.get(job.id)?.();
    this.#timers.delete(job.id);
    this.#forget(job, cause);
    const downloads = this.#downloads.get(job.id);
    if (downloads) downloads.isRemoved = true;
    else await this.deps.trash.throwAway(job.directory.path);
  }

  close(): void {
    for (const cancel of this.#timers.values()) cancel();
    this.#timers.clear();
  }

  /** Milliseconds that a job is kept after its end. */
  #lengthOf(job: Job): number {
    return Math.max(this.deps.grace, (job.request.keep ?? 0) * 1000);
  }

  /** @param length milliseconds from now on */
  #keep(job: Job, length: number): void {
    job.expiry = new Deadline(length, this.deps.clock);
    this.#arm(job);
  }

  #arm(job: Job): void {
    this.#timers.get(job.id)?.();
    const left = Math.max(job.expiry?.left ?? 0, 0);
    const cancel = this.deps.clock.after(Math.min(left, maxTimerDelay), () =>
      left <= maxTimerDelay ? this.#expire(job) : this.#arm(job),
    );
    this.#timers.set(job.id, cancel);
  }

  #expire(job: Job): void {
    // It is kept for a grace period after the last byte of the download, so its time is extended.
    if (this.#downloads.has(job.id)) {
      this.#keep(job, Math.max(this.deps.grace, shortestProlonging));
    } else if (this.#timers.delete(job.id)) {
      this.#forget(job, 'expired');
      void this.deps.trash.throwAway(job.directory.path);
    }
  }

  /**
   * Makes the job unavailable to everybody. This is recorded before its files are removed, so that the next start can finish the
   * removal.
   */
  #forget(job: Job, cause: GoneCause): void {
    const { jobs, events, expired, report } = this.deps;
    jobs.remove(job);
    events.announce('removed', { ...job.facts, cause });
    try {
      expired.add(job.id, cause, job.request.owner);
    } catch (fault) {
      report(`Job ${job.id} could not be noted as gone`, fault);
    }
  }
}
