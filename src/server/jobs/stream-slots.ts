import { setTimeout as delay } from 'node:timers/promises';
import { ServiceError } from '../../contract/errors.js';

/** Milliseconds to wait for the end of an earlier connection: a client may reconnect before its end is noticed. */
const noticeTime = 300;

interface Held {
  readonly released: Promise<void>;
}

/** Counts open log streams: at most one a job and `limit` in all (spec.md, Events: admission rules). */
export class StreamSlots {
  readonly #held = new Map<string, Held>();

  constructor(private readonly limit: number) {}

  /** How many are open. */
  get open(): number {
    return this.#held.size;
  }

  /**
   * Takes the slot of a job.
   * @returns a function that releases it, which may be called more than once
   * @throws ServiceError `streamOpen` or `tooManyStreams`
   */
  async take(jobId: string): Promise<() => void> {
    const holder = this.#held.get(jobId);
    if (holder) await Promise.race([holder.released, delay(noticeTime)]);
    if (this.#held.has(jobId)) {
      throw new ServiceError(
        'streamOpen',
        `The log of job ${jobId} is being streamed already; close that stream first, or read what there is at /jobs/${jobId}/log`,
      );
    }
    if (this.#held.size >= this.limit) {
      throw new ServiceError(
        'tooManyStreams',
        `${this.limit} log streams are open, the most there may be; try again soon`,
      );
    }
    return this.#hold(jobId);
  }

  #hold(jobId: string): () => void {
    let settle = () => {};
    const held: Held = {
      released: new Promise((resolve) => {
        settle = resolve;
      }),
    };
    this.#held.set(jobId, held);
    return () => {
      if (this.#held.get(jobId) === held) this.#held.delete(jobId);
      settle();
    };
  }
}
