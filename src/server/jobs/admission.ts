import type { Owner, Principal } from '../../access/index.js';
import {
  counted,
  FieldError,
  type FieldValue,
  maxDuration,
  type OperationName,
  operationOf,
  ServiceError,
  spellDuration,
} from '../../contract/index.js';
import type { AskedDevices, DeviceRequest, Executor } from '../executors/index.js';
import type { Job } from './job.js';
import type { JobDirectory } from './job-directory.js';
import type { JobFiles, JobRequest } from './job-record.js';
import type { LinkedInput } from './linked-input.js';
import type { Allowed, OwnerLimits } from './owner-limits.js';
import type { Retention } from './retention.js';
import type { JobStore } from './store.js';
import type { Trash } from './trash.js';

/** What is known about an upload besides its request. */
export interface SubmissionFacts {
  readonly files: JobFiles;
  readonly linked: readonly LinkedInput[];
  /** Lines for the job's log. */
  readonly notes: readonly string[];
  /** Bytes of the request's body. */
  readonly bytes: number;
  /** Bytes of the content extracted from its archives. */
  readonly extracted: number;
}

/** A place among the active jobs, reserved before the upload begins, with the directory of the upload. */
export interface Slot {
  /** Where the upload goes. */
  readonly directory: JobDirectory;
  /** What remains of its owner's limits. */
  readonly allowed: Omit<Allowed, 'release'>;
  /** The directory of the job after it is accepted. */
  readonly finalDirectory: JobDirectory;
  /** Turns the upload into a job that survives a power cut. */
  accept(request: JobRequest, facts: SubmissionFacts): Promise<Job>;
  /** Releases the place and removes the upload, unless it has become a job. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** Creates the job of a submission. `awaited` is aborted when a repetition of the submission is waiting for it. */
export type Submit = (awaited: AbortSignal) => Promise<Job>;

/** A submission with a key, and its job once that exists; null if none was created. */
interface Keyed {
  readonly job: Promise<Job | null>;
  /** Aborted by a repetition; jobs of an earlier server do not need it. */
  readonly awaited?: AbortController;
}

/** Where a submission comes from. */
export interface Submitter {
  readonly owner: Owner;
  /** Null if the request may be repeated. */
  readonly idempotencyKey: string | null;
}

/** Keys of different owners never match. Null without a key. */
const keyOf = ({ owner, idempotencyKey }: Submitter): string | null =>
  idempotencyKey === null ? null : JSON.stringify([owner, idempotencyKey]);

export interface AdmissionDeps {
  readonly store: JobStore;
  readonly trash: Trash;
  /** Most jobs that may be active at once. */
  readonly maxJobs: number;
  readonly owners: OwnerLimits;
  /** Whether the program was replaced under the running server, which then cannot start jobs. */
  readonly isUpgraded?: (() => boolean) | undefined;
  readonly start: (incoming: JobDirectory, request: JobRequest, facts: SubmissionFacts) => Promise<Job>;
  /** Called when a submission of an owner needs nothing more. */
  readonly released: (owner: Owner) => void;
}

/**
 * Admits submissions. At most `maxJobs` jobs are active, including those that are being uploaded, so that simultaneous
 * uploads cannot exceed the limit; jobs that wait because of their owner's limit are not counted. A repeated submission
 * gets the first one's job (`Idempotency-Key`).
 */
export class Admission {
  /** Whether new jobs are refused until an admin says otherwise. */
  isDraining = false;
  #uploading = 0;
  readonly #keys = new Map<string, Keyed>();

  constructor(private readonly deps: AdmissionDeps) {}

  /** Uploads in progress that may become jobs. */
  get uploading(): number {
    return this.#uploading;
  }

  /**
   * @param stated bytes of the request; undefined if it does not say
   * @throws ServiceError `draining`, `upgraded`, `busy`, or an error from the limits of its owner
   */
  reserve(asker: Principal, stated: number | undefined): Slot {
    const { store, trash, maxJobs, owners, isUpgraded, start, released } = this.deps;
    if (this.isDraining) {
      const detail = 'The server is draining and accepts no new jobs; submit again later';
      throw new ServiceError('draining', detail);
    }
    if (isUpgraded?.()) {
      const detail =
        'The program was upgraded under the running server, which takes no new job until its admin restarts it';
      throw new ServiceError('upgraded', detail);
    }
    if (!owners.isHeld(asker) && owners.takenSlots >= maxJobs) {
      throw new ServiceError(
        'busy',
        `Server busy: ${counted(maxJobs, 'job')} ${maxJobs === 1 ? 'is' : 'are'} active, the most there may be; try again later`,
      );
    }
    const allowed = owners.take(asker, stated);
    let directory: JobDirectory;
    try {
      directory = store.create();
    } catch (cause) {
      allowed.release();
      throw cause;
    }
    this.#uploading += 1;
    let isAccepted = false;
    return {
      directory,
      allowed,
      finalDirectory: store.finalDirectory(directory),
      accept: async (request, facts) => {
        const job = await start(directory, request, facts);
        isAccepted = true;
        return job;
      },
      [Symbol.asyncDispose]: async () => {
        // Releases the place even if removing the files fails.
        this.#uploading -= 1;
        allowed.release();
        if (isAccepted) released(asker.name);
        else await trash.throwAway(directory.path, true);
      },
    };
  }

  /**
   * Runs `submit`, unless a submission with this key has already created a job, which is then returned. While the first
   * submission is in progress, a repetition waits for it, and runs if it fails.
   */
  async once(from: Submitter, submit: Submit): Promise<Job> {
    const key = keyOf(from);
    const awaited = new AbortController();
    if (key === null) return submit(awaited.signal);
    for (;;) {
      const first = this.#keys.get(key);
      if (!first) break;
      first.awaited?.abort();
      const job = await first.job;
      if (job) return job;
    }
    const submission = submit(awaited.signal);
    this.#keys.set(key, { job: submission.catch(() => null), awaited });
    try {
      return await submission;
    } catch (cause) {
      this.#keys.delete(key);
      throw cause;
    }
  }

  /** Remembers the key of a job that an earlier server accepted. */
  remember(job: Job): void {
    const key = keyOf(job.request);
    if (key !== null) this.#keys.set(key, { job: Promise.resolve(job) });
  }

  forget(job: Job): void {
    const key = keyOf(job.request);
    if (key !== null) this.#keys.delete(key);
  }
}

export interface JobTermsDeps {
  readonly executor: Executor;
  readonly owners: OwnerLimits;
  readonly retention: Retention;
  /** Milliseconds that a job may run; null for no limit. */
  readonly maxRunTime: number | null;
  /** The same for fine-tuning. */
  readonly maxFineTuneTime: number | null;
}

/** Checks a new job's requests against what this server allows. A refusal names the field in question. */
export class JobTerms {
  constructor(private readonly deps: JobTermsDeps) {}

  /** @throws ServiceError if the devices are known not to exist, or are more than their owner may have */
  devices(asker: Principal, field: string, asked: AskedDevices): DeviceRequest {
    const request = this.deps.executor.check(asked);
    this.deps.owners.checkGpus(asker, field, request);
    return request;
  }

  /**
   * Seconds that a new job is kept after its end.
   * @throws FieldError if that is more than this server allows
   */
  keepFor(field: string, asked: FieldValue | undefined): number {
    return this.deps.retention.keepFor(field, asked);
  }

  /**
   * Seconds that a new job may run; null for no limit.
   * @param asked undefined means the maximum
   * @throws FieldError if that is more than this server allows, or zero
   */
  timeLimit(operation: OperationName, field: string, asked: FieldValue | undefined): number | null {
    const { maxRunTime, maxFineTuneTime } = this.deps;
    const allowed = operationOf(operation).timeLimit === 'max_fine_tune_time' ? maxFineTuneTime : maxRunTime;
    const most = allowed === null ? null : allowed / 1000;
    if (asked === undefined || asked === maxDuration) return most;
    const seconds = Number(asked);
    if (seconds === 0) throw new FieldError(field, 'must be at least 1s, got 0s');
    if (most !== null && seconds > most) {
      const problem = `is at most ${spellDuration(most)} on this server, got ${spellDuration(seconds)}`;
      throw new FieldError(field, problem);
    }
    return seconds;
  }
}
