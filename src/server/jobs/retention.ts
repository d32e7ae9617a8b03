import { statSync } from 'node:fs';
import path from 'node:path';
import { mayReach, type Owner, type Principal } from '../../access/index.js';
import {
  FieldError,
  type FieldValue,
  jobIdBytes,
  jobIdSource,
  maxDuration,
  ServiceError,
  spellDuration,
} from '../../contract/index.js';
import { appendLine, type Clock, lastLines, secondsUntil, writeTextFile } from '../../files/index.js';
import { readOrSetAside } from '../data-directory/index.js';
import type { GoneCause } from '../events.js';
import type { Report } from '../report.js';
import type { Expiry, Job } from './job.js';
import type { Trash } from './trash.js';

/** Milliseconds by which the two clocks may differ although nobody has set either. */
const clockTolerance = 2000;

/** A point in time on the machine's monotonic clock, which does not change when the wall clock is set. */
class Deadline implements Expiry {
  readonly #monotonic: number;
  readonly #wall: number;

  /** @param length milliseconds */
  constructor(
    private readonly length: number,
    private readonly clock: Clock,
  ) {
    this.#monotonic = clock.monotonic();
    this.#wall = clock.now();
  }

  /** Milliseconds until then; negative once it has passed. */
  get left(): number {
    return this.length - (this.clock.monotonic() - this.#monotonic);
  }

  /** The same as a date, by the wall clock as it is set now. */
  get date(): Date {
    const moved = this.clock.now() - this.#wall - (this.clock.monotonic() - this.#monotonic);
    return new Date(this.#wall + this.length + (Math.abs(moved) > clockTolerance ? moved : 0));
  }
}

/** Precedes the owner's name in a line. */
const ownerMark = ' of ';
/** Maximum size in bytes of an owner's name. */
const maxOwnerBytes = 64;

/** Number of expired jobs whose ids and times are remembered. */
const remembered = 10_000;
/** Maximum size in bytes of an entry: an id, a time, a space, a line feed, and the markers. */
const lineBytes = 2 * jobIdBytes + 24 + 2 + ' removed'.length + ownerMark.length + maxOwnerBytes;

const linePattern = new RegExp(
  `^(${jobIdSource}) (\\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z)(?: (removed|fetched))?(?:${ownerMark}(\\S+))?$`,
);

/** When and why a job was removed. */
interface Gone {
  /** ISO 8601. */
  readonly time: string;
  readonly cause: GoneCause;
  readonly owner: Owner;
}

const lineOf = ([id, { time, cause, owner }]: readonly [string, Gone]): string =>
  `${id} ${time}${cause === 'expired' ? '' : ` ${cause}`}${owner === null ? '' : ownerMark + owner}`;

/**
 * The jobs that have expired or were removed, and when. Requests for them are answered with 410 instead of 404, even
 * after a restart.
 */
export class ExpiredJobs {
  readonly #file: string;
  readonly #gone = new Map<string, Gone>();

  /** A file that cannot be read, or is not a file, is set aside, so that a start does not fail because of it. */
  constructor(
    dataDirectory: string,
    private readonly clock: Clock,
    private readonly report: Report,
  ) {
    this.#file = path.join(dataDirectory, 'expired');
    readOrSetAside(dataDirectory, this.#file, report, () => this.#load());
  }

  /** @throws the system's error if it cannot be written; it is still remembered until the server ends */
  add(id: string, cause: GoneCause, owner: Owner): void {
    const gone = { time: new Date(this.clock.now()).toISOString(), cause, owner };
    this.#gone.set(id, gone);
    const oldest = this.#gone.keys().next().value;
    if (this.#gone.size > remembered && oldest !== undefined) this.#gone.delete(oldest);
    appendLine(this.#file, lineOf([id, gone]), { isKept: true });
  }

  has(id: string): boolean {
    return this.#gone.has(id);
  }

  /** @throws ServiceError `expired` for a job that is gone, if this person could see it */
  check(id: string, principal: Principal): void {
    const gone = this.#gone.get(id);
    if (!gone || !mayReach(principal, gone.owner)) return;
    const { time, cause } = gone;
    const what = {
      expired: `expired at ${time}: it and its result are removed`,
      removed: `was removed at ${time}`,
      fetched: `was removed at ${time}, since its result had been fetched and the disk was short`,
    }[cause];
    throw new ServiceError('expired', `Job ${id} ${what}; submit it again`);
  }

  #rewrite(): void {
    try {
      const lines = [...this.#gone].map((entry) => `${lineOf(entry)}\n`);
      writeTextFile(this.#file, lines.join(''));
    } catch (cause) {
      this.report('The list of expired jobs could not be shortened', cause);
    }
  }

  /** Reads the newest entries, and shortens the file if it has more than twice as many. */
  #load(): void {
    for (const line of lastLines(this.#file, remembered * lineBytes)) {
      const [, id = '', time = '', mark = 'expired', owner = null] = linePattern.exec(line) ?? [];
      if (id !== '') this.#gone.set(id, { time, cause: mark as GoneCause, owner });
    }
    if (statSync(this.#file).size > 2 * remembered * lineBytes) this.#rewrite();
  }
}

/** Longest delay of a timer, in milliseconds. */
const maxTimerDelay = 2 ** 31 - 1;

/** Shortest extension, in milliseconds, when a job's time is prolonged during a download. */
const shortestProlonging = 1000;

export interface RetentionDeps {
  readonly expired: ExpiredJobs;
  readonly trash: Trash;
  /** Milliseconds that a job is kept at least: after its end, after its last download, and after a server start. */
  readonly grace: number;
  /** Milliseconds that a job is kept at most after its end, if that is more. */
  readonly maxKeep: number;
  readonly forget: (job: Job, cause: GoneCause) => void;
  readonly clock: Clock;
  readonly report: Report;
}

/**
 * Removes each job when its time is up, but not during a download or while one could still be resumed; or earlier on
 * request.
 */
export class Retention {
  /** What cancels the timer of each job. */
  readonly #timers = new Map<string, () => void>();
  readonly #downloads = new Map<string, number>();
  /** Directories of jobs that were removed during a download, by id. They are deleted when the download is over. */
  readonly #doomed = new Map<string, string>();

  constructor(private readonly deps: RetentionDeps) {}

  /**
   * Seconds that a new job is kept after its end.
   * @param asked the value of the field of that name; undefined asks for the grace period
   * @throws FieldError if that is more than this server allows
   */
  keepFor(field: string, asked: FieldValue | undefined): number {
    const { grace, maxKeep } = this.deps;
    const [min, max] = [grace / 1000, Math.max(grace, maxKeep) / 1000];
    if (asked === maxDuration) return max;
    const seconds = Number(asked ?? 0);
    if (seconds > max) {
      const problem = `is at most ${spellDuration(max)} on this server, got ${spellDuration(seconds)}`;
      throw new FieldError(field, problem);
    }
    return Math.max(seconds, min);
  }

  /** Starts the time of a job that has just ended. */
  schedule(job: Job): void {
    this.#keep(job, this.#lengthOf(job));
  }

  /**
   * Starts the time of a job that ended under an earlier server: as announced at its end, but at least a grace period,
   * since nobody could fetch a result while there was no server. After a reboot, only the wall clock can be used. Within
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
   * Keeps a job from being removed. Returns a function that ends this and may be called repeatedly. The job is then kept
   * for another grace period at least, so that a download that broke off can be resumed.
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

  /**
   * Those of these jobs that may be removed before their time, oldest first: jobs whose results were fetched, and failed or
   * killed jobs whose files are still there. None of them is being downloaded.
   */
  evictable(jobs: readonly Job[]): { readonly fetched: Job[]; readonly failed: Job[] } {
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

  /**
   * Removes a job that has ended, at once. A download in progress is not interrupted: the files are deleted when it is
   * over. Resolves when they are gone, or are going to be deleted.
   */
  async remove(job: Job, cause: GoneCause = 'removed'): Promise<void> {
    this.#timers.get(job.id)?.();
    this.#timers.delete(job.id);
    this.#forget(job, cause);
    if (this.#downloads.has(job.id)) this.#doomed.set(job.id, job.directory.path);
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
   * From here on the job is gone for everybody. This is recorded before its files are removed, so that the next start can
   * finish the removal.
   */
  #forget(job: Job, cause: GoneCause): void {
    this.deps.forget(job, cause);
    try {
      this.deps.expired.add(job.id, cause, job.request.owner);
    } catch (fault) {
      this.deps.report(`Job ${job.id} could not be noted as gone`, fault);
    }
  }
}
