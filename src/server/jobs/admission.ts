import { ServiceError } from '../../contract/errors.js';
import type { Job } from './job.js';
import type { JobDirectory } from './job-directory.js';
import type { JobRequest } from './job-record.js';
import type { JobStore } from './store.js';
import type { Trash } from './trash.js';

/** A place among the active jobs, taken before the upload begins, with the directory that it goes to. */
export interface Slot {
  /** Where the upload goes. */
  readonly directory: JobDirectory;
  /** Where the job will lie once it is accepted. */
  readonly place: JobDirectory;
  /** Turns the upload into a job that survives a power cut; the notes go into its log. */
  accept(request: JobRequest, notes: readonly string[]): Promise<Job>;
  /** Gives the place back and removes what was uploaded, unless it has become a job. */
  [Symbol.asyncDispose](): Promise<void>;
}

export interface AdmissionDeps {
  readonly store: JobStore;
  readonly trash: Trash;
  /** Most jobs that may be active at once. */
  readonly maxJobs: number;
  readonly activeJobs: () => number;
  readonly start: (upload: JobDirectory, request: JobRequest, notes: readonly string[]) => Promise<Job>;
}

/**
 * Who may come in: at most `maxJobs` jobs are active, those being uploaded included, so that many uploads at once
 * cannot all pass; and a repeat of a submission is given the first one's job (`Idempotency-Key`).
 */
export class Admission {
  #uploading = 0;
  readonly #keys = new Map<string, Promise<Job | null>>();

  constructor(private readonly deps: AdmissionDeps) {}

  /** @throws ServiceError `busy` */
  reserve(): Slot {
    const { store, trash, maxJobs, activeJobs, start } = this.deps;
    if (activeJobs() + this.#uploading >= maxJobs) {
      throw new ServiceError(
        'busy',
        `Server busy: ${maxJobs} jobs are active, the most there may be; try again later`,
      );
    }
    const directory = store.create();
    this.#uploading += 1;
    let isAccepted = false;
    return {
      directory,
      place: store.placeOf(directory),
      accept: async (request, notes) => {
        const job = await start(directory, request, notes);
        isAccepted = true;
        return job;
      },
      [Symbol.asyncDispose]: async () => {
        // The place is free whatever becomes of the files.
        this.#uploading -= 1;
        if (!isAccepted) await trash.throwAway(directory.path, true);
      },
    };
  }

  /**
   * Runs `submit` unless a submission with this key has made a job: then that job is the answer. While one is
   * under way, a repeat waits for it, and takes its place if it fails.
   */
  async once(key: string | null, submit: () => Promise<Job>): Promise<Job> {
    if (key === null) return submit();
    for (;;) {
      const first = this.#keys.get(key);
      if (!first) break;
      const job = await first;
      if (job) return job;
    }
    const submission = submit();
    const settled = submission.catch(() => null);
    this.#keys.set(key, settled);
    try {
      return await submission;
    } catch (cause) {
      this.#keys.delete(key);
      throw cause;
    }
  }

  /** Remembers the key of a job that an earlier server accepted. */
  remember(job: Job): void {
    if (job.request.idempotencyKey !== null) this.#keys.set(job.request.idempotencyKey, Promise.resolve(job));
  }

  forget(job: Job): void {
    if (job.request.idempotencyKey !== null) this.#keys.delete(job.request.idempotencyKey);
  }
}
