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
import type { JobFiles } from './job-record.js';
import type { Allowed, OwnerLimits } from './owner-limits.js';
import type { Retention } from './retention.js';
import type { JobStore } from './store.js';
import type { Trash } from './trash.js';

/** What is known about a submission besides its request. */
export interface SubmissionFacts {
  readonly files: JobFiles;
  /** Lines for the job's log. */
  readonly notes: readonly string[];
  /** Bytes of the request's body. */
  readonly bytes: number;
  /** Bytes of the content extracted from its archives. */
  readonly extracted: number;
}

/** Where a submission comes from. */
export interface Submitter {
  readonly owner: Owner;
  /** Null if each repetition is a new submission. */
  readonly idempotencyKey: string | null;
}

/** Keys of different owners never match. Null without a key. */
const keyOf = ({ owner, idempotencyKey }: Submitter): string | null =>
  idempotencyKey === null ? null : JSON.stringify([owner, idempotencyKey]);

/** A submission with an idempotency key, from its beginning until its job is removed. */
interface Keyed {
  /** Null if it did not become a job. */
  readonly job: Promise<Job | null>;
  /** Aborted by a repetition; jobs of an earlier server do not need it. */
  readonly awaited?: AbortController;
}

/** A submission in progress that no other has the key of. */
export interface Claim {
  /** Aborted when a repetition of the submission is waiting for it. */
  readonly awaited: AbortSignal;
  /** Tells repetitions the job; null if there is none, so that one of them may try. */
  settle(job: Job | null): void;
}

/** A place among the active jobs, reserved before the body is read, with a directory for what arrives. */
export interface Slot extends AsyncDisposable {
  readonly directory: JobDirectory;
  /** The directory of the job once it is accepted. */
  readonly finalDirectory: JobDirectory;
  /** What remains of its owner's limits. */
  readonly allowed: Omit<Allowed, 'release'>;
  /** Aborted when a repetition of the submission is waiting for it. */
  readonly awaited: AbortSignal;
  /** Set once the submission is a job. Otherwise disposing of the slot removes what arrived. */
  job: Job | null;
}

export interface AdmissionDeps {
  readonly store: JobStore;
  readonly trash: Trash;
  /** Jobs that may be active at once. */
  readonly maxJobs: number;
  readonly owners: OwnerLimits;
  /** Whether the program was replaced under the running server, which then cannot start jobs. */
  readonly isUpgraded?: (() => boolean) | undefined;
  /** Called when a submission of an owner has become a job and needs nothing more. */
  readonly released: (owner: Owner) => void;
}

/**
 * Admits submissions. At most `maxJobs` jobs are active. Submissions in progress count among them, so that many at once
 * cannot exceed the limit; jobs that wait because of their owner's limit do not. A repeated submission gets the job of the
 * first one (`Idempotency-Key`).
 */
export class Admission {
  /** Whether new jobs are refused until an admin says otherwise. */
  isDraining = false;
  #submitting = 0;
  readonly #keys = new Map<string, Keyed>();

  constructor(private readonly deps: AdmissionDeps) {}

  /** Submissions in progress that may become jobs. */
  get submitting(): number {
    return this.#submitting;
  }

  /**
   * Claims the key of a submission. While another submission with it is in progress, waits for that one.
   * @returns the job that a submission with this key has created, or a claim that must be settled
   */
  async claim(from: Submitter): Promise<Job | Claim> {
    const key = keyOf(from);
    const awaited = new AbortController();
    if (key === null) return { awaited: awaited.signal, settle: () => {} };
    for (let first = this.#keys.get(key); first; first = this.#keys.get(key)) {
      first.awaited?.abort();
      const job = await first.job;
      if (job) return job;
    }
    let settle: Claim['settle'] = () => {};
    const job = new Promise<Job | null>((resolve) => {
      settle = resolve;
    });
    this.#keys.set(key, { job, awaited });
    return {
      awaited: awaited.signal,
      settle: (made) => {
        if (!made) this.#keys.delete(key);
        settle(made);
      },
    };
  }

  /**
   * @param stated bytes of the request; undefined if it does not say
   * @throws ServiceError `draining`, `upgraded`, `busy`, or an error from the limits of its owner
   */
  reserve(principal: Principal, stated: number | undefined, claim: Claim): Slot {
    const { store, trash, maxJobs, owners, isUpgraded, released } = this.deps;
    if (this.isDraining) {
      const detail = 'The server is draining and accepts no new jobs; submit again later';
      throw new ServiceError('draining', detail);
    }
    if (isUpgraded?.()) {
      const detail =
        'The program was upgraded under the running server, which takes no new job until its admin restarts it';
      throw new ServiceError('upgraded', detail);
    }
    if (!owners.isHeld(principal) && owners.takenSlots >= maxJobs) {
      throw new ServiceError(
        'busy',
        `Server busy: ${counted(maxJobs, 'job')} ${maxJobs === 1 ? 'is' : 'are'} active, the most there may be; try again later`,
      );
    }
    const allowed = owners.take(principal, stated);
    let directory: JobDirectory;
    try {
      directory = store.create();
    } catch (cause) {
      allowed.release();
      throw cause;
    }
    this.#submitting += 1;
    const slot: Slot = {
      directory,
      finalDirectory: store.finalDirectory(directory),
      allowed,
      awaited: claim.awaited,
      job: null,
      [Symbol.asyncDispose]: async () => {
        // Releases the place even if removing the files fails.
        this.#submitting -= 1;
        allowed.release();
        claim.settle(slot.job);
        if (slot.job) released(principal.name);
        else await trash.throwAway(directory.path, true);
      },
    };
    return slot;
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
  devices(principal: Principal, field: string, asked: AskedDevices): DeviceRequest {
    const request = this.deps.executor.check(asked);
    this.deps.owners.checkGpus(principal, field, request);
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
    const max = allowed === null ? null : allowed / 1000;
    if (asked === undefined || asked === maxDuration) return max;
    const seconds = Number(asked);
    if (seconds === 0) throw new FieldError(field, 'must be at least 1s, got 0s');
    if (max !== null && seconds > max) {
      const problem = `is at most ${spellDuration(max)} on this server, got ${spellDuration(seconds)}`;
      throw new FieldError(field, problem);
    }
    return seconds;
  }
}
