import type { Owner, Principal } from '../../access/principal.js';
import { counted } from '../../contract/counted.js';
import { ServiceError } from '../../contract/errors.js';
import type { Job } from './job.js';
import type { JobDirectory } from './job-directory.js';
import type { JobRequest } from './job-record.js';
import type { Allowed, OwnerLimits } from './owner-limits.js';
import type { JobStore } from './store.js';
import type { Trash } from './trash.js';

/** What is known of an upload besides its request. */
export interface Told {
  /** Lines for the job's log. */
  readonly notes: readonly string[];
  /** Bytes of the request's body. */
  readonly bytes: number;
  /** Bytes that its archives extract to. */
  readonly extracted: number;
}

/** A place among the active jobs, reserved before the upload begins, and the directory of the upload. */
export interface Slot {
  /** Where the upload goes. */
  readonly directory: JobDirectory;
  /** What its owner's limits allow. */
  readonly allowed: Omit<Allowed, 'release'>;
  /** The directory of the job after it is accepted. */
  readonly place: JobDirectory;
  /** Turns the upload into a job that survives a power cut. */
  accept(request: JobRequest, told: Told): Promise<Job>;
  /** Releases the place and removes the upload, unless it has become a job. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** Makes the job of a submission. `awaited` is aborted when a repeat of the same submission waits for it. */
export type Submit = (awaited: AbortSignal) => Promise<Job>;

/** A submission that has a key, and its job once it is made; null if it makes none. */
interface Keyed {
  readonly job: Promise<Job | null>;
  /** Aborted by a repeat; a job of an earlier server needs none. */
  readonly awaited?: AbortController;
}

/** Where a submission comes from. */
export interface Submitter {
  readonly owner: Owner;
  /** Null if it may be repeated. */
  readonly idempotencyKey: string | null;
}

/** A key of its owner's: that of another one is another key, whatever its text. Null where there is none. */
const keyOf = ({ owner, idempotencyKey }: Submitter): string | null =>
  idempotencyKey === null ? null : JSON.stringify([owner, idempotencyKey]);

export interface AdmissionDeps {
  readonly store: JobStore;
  readonly trash: Trash;
  /** Most jobs that may be active at once. */
  readonly maxJobs: number;
  readonly owners: OwnerLimits;
  readonly start: (upload: JobDirectory, request: JobRequest, told: Told) => Promise<Job>;
}

/**
 * Admits submissions. At most `maxJobs` jobs are active, including those that are being uploaded, so that simultaneous
 * uploads cannot exceed the limit; those that wait for the limit of their owner come on top. A repeated submission gets the first one's job (`Idempotency-Key`).
 */
export class Admission {
  #uploading = 0;
  readonly #keys = new Map<string, Keyed>();

  constructor(private readonly deps: AdmissionDeps) {}

  /** Uploads under way that may become jobs. */
  get uploading(): number {
    return this.#uploading;
  }

  /**
   * @param stated bytes of the request; undefined if it does not say
   * @throws ServiceError `busy`, or what the limits of its owner say
   */
  reserve(asker: Principal, stated: number | undefined): Slot {
    const { store, trash, maxJobs, owners, start } = this.deps;
    if (!owners.isHeld(asker) && owners.places >= maxJobs) {
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
      place: store.placeOf(directory),
      accept: async (request, told) => {
        const job = await start(directory, request, told);
        isAccepted = true;
        return job;
      },
      [Symbol.asyncDispose]: async () => {
        // Releases the place even if removing the files fails.
        this.#uploading -= 1;
        allowed.release();
        if (!isAccepted) await trash.throwAway(directory.path, true);
      },
    };
  }

  /**
   * Runs `submit`, unless a submission with this key has made a job already: then returns that job. While the first one is
   * under way a repeat waits for it, and is run if the first one fails.
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
