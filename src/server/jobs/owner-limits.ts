import { type Limit, type Owner, ownerInWords, type Principal } from '../../access/index.js';
import { counted, FieldError, formatBytes, ServiceError } from '../../contract/index.js';
import { type DeviceRequest, gpusOf } from '../executors/index.js';
import { treeSize } from './disk-use.js';
import type { Job } from './job.js';

/** What owners currently have, not counting uploads in progress. */
export interface OwnedNow {
  /** The owner of each job that has not ended. */
  readonly activeOwners: () => readonly Owner[];
  /** Jobs that an owner may have at once; null for any number. */
  readonly maxJobsOf: (owner: Owner) => number | null;
  readonly keptBytesOf: (owner: Owner) => number;
}

/** A submission that its owner's limits allow. */
export interface Allowed {
  /** Bytes that the upload may have; null if its owner has no such limit. */
  readonly bytes: number | null;
  /** The end of a sentence about that limit: whose limit it is. */
  readonly advice: string;
  /**
   * Reports how much of its owner's space the upload takes, in bytes, including the content of its archives. Called again
   * as more becomes known.
   * @throws ServiceError `keptFull`
   */
  hold(bytes: number): void;
  release(): void;
}

/** Maximum number of jobs of one owner that may wait for its limit of active jobs. */
const maxWaiting = 1000;

interface Uploads {
  jobs: number;
  bytes: number;
}

const capitalised = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** The error if the jobs of an owner keep too much for an upload. */
const keptFull = (owner: Owner, kept: number, { max, whose }: Limit): ServiceError =>
  new ServiceError(
    'keptFull',
    `The jobs of ${ownerInWords(owner)} keep ${formatBytes(kept)} of the ${formatBytes(max)} that they may keep (the limit ${whose}), ` +
      `which leaves too little for this upload; 'remote-app rm JOB...' removes jobs that have ended`,
  );

/**
 * Holds each owner to the limits of their token, or of its role. Uploads in progress count, so that many at once do not
 * slip through.
 */
export class OwnerLimits {
  readonly #uploads = new Map<Owner, Uploads>();

  constructor(private readonly now: OwnedNow) {}

  /**
   * Shared slots that jobs and uploads take. A job that waits for its owner's limit takes none: otherwise one owner
   * could fill them all.
   */
  get takenSlots(): number {
    const active = new Map<Owner, number>();
    const add = (owner: Owner, jobs: number) => active.set(owner, (active.get(owner) ?? 0) + jobs);
    for (const owner of this.now.activeOwners()) add(owner, 1);
    for (const [owner, { jobs }] of this.#uploads) add(owner, jobs);
    let taken = 0;
    for (const [owner, jobs] of active)
      taken += Math.min(jobs, this.now.maxJobsOf(owner) ?? Number.POSITIVE_INFINITY);
    return taken;
  }

  /** Whether an owner's next job would wait for their own limit, and so take none of those places. */
  isHeld({ name, limits: { max_jobs: limit } }: Principal): boolean {
    return limit !== null && this.#activeOf(name) >= limit.max;
  }

  /**
   * Takes a place for an upload.
   * @param stated bytes of the request; undefined if it does not say
   * @throws ServiceError `busy`, `uploadTooLarge` or `keptFull`; the message says which limit, whose it is, and how large
   */
  take(principal: Principal, stated: number | undefined): Allowed {
    const { name } = principal;
    const uploads = this.#uploads.get(name) ?? { jobs: 0, bytes: 0 };
    this.#checkJobs(principal);
    const { bytes, advice } = this.#allowance(principal, uploads, stated ?? 0);
    const { max_kept } = principal.limits;
    let reserved = max_kept === null ? 0 : (stated ?? bytes ?? 0);
    this.#uploads.set(name, uploads);
    uploads.jobs += 1;
    uploads.bytes += reserved;
    return {
      bytes,
      advice,
      hold: (held) => {
        if (max_kept === null) return;
        const kept = this.now.keptBytesOf(name) + uploads.bytes - reserved;
        if (held > reserved && kept + held > max_kept.max) throw keptFull(name, kept, max_kept);
        uploads.bytes += held - reserved;
        reserved = held;
      },
      release: () => {
        uploads.jobs -= 1;
        uploads.bytes -= reserved;
        if (uploads.jobs === 0) this.#uploads.delete(name);
      },
    };
  }

  /**
   * Bytes that all uploads of an owner may keep, beside its jobs and the forms in progress; null for no limit.
   * @param length bytes of a new upload
   * @throws ServiceError `uploadTooLarge` or `keptFull`
   */
  roomForUpload({ name, limits: { max_kept, max_upload } }: Principal, length: number): number | null {
    if (max_upload !== null && length > max_upload.max) {
      const detail = `The upload is larger than the limit of ${formatBytes(max_upload.max)} ${max_upload.whose}`;
      throw new ServiceError('uploadTooLarge', detail);
    }
    if (max_kept === null) return null;
    const kept = this.now.keptBytesOf(name) + (this.#uploads.get(name)?.bytes ?? 0);
    if (kept + length > max_kept.max) throw keptFull(name, kept, max_kept);
    return max_kept.max - kept;
  }

  /** The error of an upload for which the other uploads of its owner leave too little. */
  uploadsFull({ name, limits: { max_kept } }: Principal, bytes: number): ServiceError {
    const max = max_kept?.max ?? 0;
    return new ServiceError(
      'keptFull',
      `The jobs and uploads of ${ownerInWords(name)} may keep ${formatBytes(max)}${max_kept ? ` (the limit ${max_kept.whose})` : ''}, ` +
        `and ${formatBytes(bytes)} of uploads that were just used leave too little for this one; submit what you have sent, or wait`,
    );
  }

  /** @throws FieldError for a job that would wait for ever, because it asks for more GPUs than its owner may have */
  checkGpus({ name, limits: { max_gpus: limit } }: Principal, field: string, request: DeviceRequest): void {
    const asked = gpusOf(request);
    if (limit === null || asked <= limit.max) return;
    throw new FieldError(
      field,
      `asks for ${counted(asked, 'GPU')}; ${ownerInWords(name)} may have ${limit.max} at once (the limit ${limit.whose})`,
    );
  }

  #activeOf(owner: Owner): number {
    const active = this.now.activeOwners().filter((each) => each === owner).length;
    return active + (this.#uploads.get(owner)?.jobs ?? 0);
  }

  /** Up to this many jobs beyond the limit wait for their turn. If the limit is 0, they would wait for ever. */
  #checkJobs({ name, limits: { max_jobs: limit } }: Principal): void {
    if (limit === null) return;
    const { max, whose } = limit;
    if (max === 0) {
      const detail = `${capitalised(ownerInWords(name))} may have no active jobs (the limit ${whose})`;
      throw new ServiceError('busy', detail);
    }
    if (this.#activeOf(name) < max + maxWaiting) return;
    throw new ServiceError(
      'busy',
      `Server busy: ${maxWaiting} jobs of ${ownerInWords(name)} wait for its limit of ${counted(max, 'active job')} (the limit ${whose}), ` +
        'the most that may wait; wait for some to end, or kill some',
    );
  }

  /** The smaller of what an upload may have and what its owner may still keep. */
  #allowance({ name, limits: { max_kept, max_upload } }: Principal, uploads: Uploads, stated: number) {
    const ofUpload = { bytes: max_upload?.max ?? null, advice: max_upload ? ` ${max_upload.whose}` : '' };
    if (max_kept === null) return ofUpload;
    const { max, whose } = max_kept;
    const kept = this.now.keptBytesOf(name) + uploads.bytes;
    const left = max - kept;
    if (left <= 0 || stated > left) throw keptFull(name, kept, max_kept);
    if (ofUpload.bytes !== null && ofUpload.bytes <= left) return ofUpload;
    return {
      bytes: left,
      advice: `, which is left of the ${formatBytes(max)} that its jobs may keep (the limit ${whose})`,
    };
  }
}

/**
 * How many bytes the jobs of each owner keep on the disk: for an active job, its upload with the content of its archives;
 * for one that has ended, all its remaining files. What a job writes while it runs counts once it has ended.
 */
export class KeptBytes {
  readonly #jobs = new Map<string, Job>();
  /** Measurements run one after the other, so that they leave most of the disk's time to the jobs. */
  #measuring: Promise<void> = Promise.resolve();
  /** The last measurement for each owner. */
  readonly #last = new Map<Owner, Promise<void>>();

  /** Bytes that the jobs of an owner keep. */
  of(owner: Owner): number {
    let sum = 0;
    for (const job of this.#jobs.values()) if (job.request.owner === owner) sum += this.ofJob(job);
    return sum;
  }

  /** Counts a job that was just accepted. */
  add(job: Job, bytes: number): void {
    job.keptBytes = bytes;
    this.#jobs.set(job.id, job);
  }

  /** Bytes that a job keeps. */
  ofJob({ keptBytes }: Job): number {
    return keptBytes ?? 0;
  }

  /** Measures what is left of a job that has ended, or what an earlier server's job keeps. */
  measure(job: Job): Promise<void> {
    this.#jobs.set(job.id, job);
    this.#measuring = this.#measuring.then(async () => {
      const bytes = await treeSize(job.directory.path);
      if (this.#jobs.has(job.id)) job.keptBytes = bytes;
    });
    this.#last.set(job.request.owner, this.#measuring);
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

  /** The job has been removed. */
  forget(job: Job): void {
    this.#jobs.delete(job.id);
  }
}
