import { ServiceError } from '../../contract/errors.js';

/** Counts open log streams: at most one a job and `limit` in all (spec.md, Events: admission rules). */
export class StreamSlots {
  readonly #jobs = new Set<string>();

  constructor(private readonly limit: number) {}

  /** @returns what gives the slot back; it may be called more than once */
  take(jobId: string): () => void {
    if (this.#jobs.has(jobId)) {
      throw new ServiceError(
        'streamOpen',
        `The log of job ${jobId} is being streamed already; close that stream first`,
      );
    }
    if (this.#jobs.size >= this.limit) {
      throw new ServiceError(
        'tooManyStreams',
        `${this.limit} log streams are open, the most there may be; try again soon`,
      );
    }
    this.#jobs.add(jobId);
    let isHeld = true;
    return () => {
      if (isHeld) this.#jobs.delete(jobId);
      isHeld = false;
    };
  }
}
