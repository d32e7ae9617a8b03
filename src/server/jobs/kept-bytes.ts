import type { Owner } from '../../access/principal.js';
import type { Job } from './job.js';
import { treeSize } from './tree-size.js';

/**
 * How many bytes the jobs of each owner keep on the disk: of a job that is active its upload and what the archives in it
 * extract to, of one that has ended all files that are left of it. What a job writes while it runs counts once it has ended.
 */
export class KeptBytes {
  readonly #bytes = new Map<string, { readonly owner: Owner; readonly bytes: number }>();
  /** Measurements, one after the other, so that they take little of the disk from the jobs. */
  #measuring: Promise<void> = Promise.resolve();
  /** The last measurement of each owner's jobs. */
  readonly #last = new Map<Owner, Promise<void>>();

  /** Bytes that the jobs of an owner keep. */
  of(owner: Owner): number {
    let sum = 0;
    for (const each of this.#bytes.values()) if (each.owner === owner) sum += each.bytes;
    return sum;
  }

  /** Counts a job that was just accepted. */
  add(job: Job, bytes: number): void {
    this.#bytes.set(job.id, { owner: job.request.owner, bytes });
  }

  /** Bytes that a job keeps. */
  ofJob({ id }: Job): number {
    return this.#bytes.get(id)?.bytes ?? 0;
  }

  /** Measures what is left of a job that has ended, or what there is of one of an earlier server. */
  measure(job: Job): Promise<void> {
    const { owner } = job.request;
    if (!this.#bytes.has(job.id)) this.add(job, 0);
    this.#measuring = this.#measuring.then(async () => {
      const bytes = await treeSize(job.directory.path);
      if (this.#bytes.has(job.id)) this.#bytes.set(job.id, { owner, bytes });
    });
    this.#last.set(owner, this.#measuring);
    return this.#measuring;
  }

  /** Resolves when all jobs of an owner that have ended are measured. */
  async known(owner: Owner): Promise<void> {
    await this.#last.get(owner);
  }

  /** Resolves when all jobs that have ended are measured. */
  async allKnown(): Promise<void> {
    await this.#measuring;
  }

  /** The job is removed. */
  forget(job: Job): void {
    this.#bytes.delete(job.id);
  }
}
