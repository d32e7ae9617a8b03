import type { Owner } from '../../access/index.js';
import { treeSize } from './disk-use.js';
import type { Job } from './job.js';

/** Which jobs of the list are requested. */
export interface JobPage {
  readonly isWanted: (job: Job) => boolean;
  readonly limit: number;
  /** Only jobs that come after this one in the list; null for the first ones. */
  readonly before: Job | null;
}

/** Combines an owner with an idempotency key, so that keys of different owners never match. Null without a key. */
export const keyOf = (owner: Owner, idempotencyKey: string | null): string | null =>
  idempotencyKey === null ? null : JSON.stringify([owner, idempotencyKey]);

/** The jobs that the server keeps, by id and by idempotency key, and the bytes that each occupies on the disk. */
export class JobTable {
  readonly #byId = new Map<string, Job>();
  readonly #byKey = new Map<string, Job>();
  /** Measurements run one after the other, so that they leave most of the disk's time to the jobs. */
  #measuring: Promise<void> = Promise.resolve();

  /** The last measurement for each owner. */
  readonly #lastOf = new Map<Owner, Promise<void>>();

  get(id: string): Job | undefined {
    return this.#byId.get(id);
  }

  withKey(key: string): Job | undefined {
    return this.#byKey.get(key);
  }

  get size(): number {
    return this.#byId.size;
  }

  add(job: Job): void {
    const { owner, idempotencyKey } = job.request;
    this.#byId.set(job.id, job);
    const key = keyOf(owner, idempotencyKey);
    if (key !== null) this.#byKey.set(key, job);
  }

  remove(job: Job): void {
    const { owner, idempotencyKey } = job.request;
    this.#byId.delete(job.id);
    const key = keyOf(owner, idempotencyKey);
    if (key !== null) this.#byKey.delete(key);
  }

  /** Measures the disk space of a job that has ended, or of a job of an earlier server. */
  measure(job: Job): void {
    this.#measuring = this.#measuring.then(async () => {
      job.keptBytes = await treeSize(job.directory.path);
    });
    this.#lastOf.set(job.request.owner, this.#measuring);
  }

  /** Resolves when all jobs of this owner that have ended have been measured. */
  async measuredOf(owner: Owner): Promise<void> {
    await this.#lastOf.get(owner);
  }

  /** Resolves when all jobs that have ended have been measured. */
  async measured(): Promise<void> {
    await this.#measuring;
  }

  /** All jobs, in no particular order. */
  values(): IterableIterator<Job> {
    return this.#byId.values();
  }

  /** All jobs, newest first. Of two jobs accepted at the same time, the one found last comes first. */
  list(): Job[] {
    // All times have the same format, so they can be compared as text.
    const later = ({ record: a }: Job, { record: b }: Job) => (a.createdAt < b.createdAt ? 1 : -1);
    return [...this.#byId.values()]
      .reverse()
      .sort((a, b) => (a.record.createdAt === b.record.createdAt ? 0 : later(a, b)));
  }

  /** One page of the jobs, newest first. */
  page({ isWanted, limit, before }: JobPage): Job[] {
    const all = this.list();
    const from = before === null ? 0 : all.indexOf(before) + 1;
    return all.slice(from).filter(isWanted).slice(0, limit);
  }
}
