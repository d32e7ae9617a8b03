import { type Limit, type Owner, ownerInWords, type Principal } from '../../access/index.js';
import { counted, FieldError, formatBytes, ServiceError } from '../../contract/index.js';
import { type DeviceRequest, gpusOf } from '../executors/index.js';
import type { JobTable } from './job-table.js';

/** The current limits of owners; null means no limit. */
export interface OwnerLimits {
  /** Number of active jobs that an owner may have at once; further jobs wait. */
  readonly maxJobs: (owner: Owner) => number | null;
  /** Bytes that an owner may keep. */
  readonly maxKept: (owner: Owner) => number | null;
}

/** What a submission in progress may take of its owner's space. */
export interface Allowed {
  /** Bytes that the submission may have; null if its owner has no such limit. */
  readonly bytes: number | null;
  /** The end of a sentence about that limit: whose limit it is. */
  readonly advice: string;
  /**
   * Reports how much of its owner's space the submission takes, in bytes, including the content of its archives. Called again
   * as more becomes known.
   * @throws ServiceError `keptFull`
   */
  count(bytes: number): void;
}

/** What one owner has at the moment. */
interface Use {
  /** Jobs that have ended. */
  readonly ended: number;
  /** Jobs that have not. */
  readonly active: number;
  /** Bytes that the jobs keep on the disk. */
  readonly keptBytes: number;
  /** Submissions in progress. */
  readonly submissions: number;
  /** Bytes that the submissions in progress take of what the owner may keep. */
  readonly submittedBytes: number;
}

const sumOf = (figures: readonly number[]): number => figures.reduce((sum, each) => sum + each, 0);

/** Maximum number of jobs of one owner that may wait for its limit of active jobs. */
const maxWaiting = 1000;

const capitalised = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** The error for an owner whose jobs occupy too much space to accept another submission or upload. */
const keptFull = (owner: Owner, kept: number, { max, whose }: Limit): ServiceError =>
  new ServiceError(
    'keptFull',
    `The jobs of ${ownerInWords(owner)} keep ${formatBytes(kept)} of the ${formatBytes(max)} that they may keep (the limit ${whose}), ` +
      `which leaves too little for this upload; 'remote-app rm JOB...' removes jobs that have ended`,
  );

/** The error of an upload for which the other uploads of its owner leave too little. */
export function uploadsFull({ name, limits: { max_kept } }: Principal, bytes: number): ServiceError {
  const max = max_kept?.max ?? 0;
  return new ServiceError(
    'keptFull',
    `The jobs and uploads of ${ownerInWords(name)} may keep ${formatBytes(max)}${max_kept ? ` (the limit ${max_kept.whose})` : ''}, ` +
      `and ${formatBytes(bytes)} of uploads that were just used leave too little for this one; submit what you have sent, or wait`,
  );
}

/** @throws FieldError for a job that would wait for ever, because it asks for more GPUs than its owner may have */
export function checkGpus(
  { name, limits: { max_gpus: limit } }: Principal,
  field: string,
  request: DeviceRequest,
): void {
  const asked = gpusOf(request);
  if (limit === null || asked <= limit.max) return;
  throw new FieldError(
    field,
    `asks for ${counted(asked, 'GPU')}; ${ownerInWords(name)} may have ${limit.max} at once (the limit ${limit.whose})`,
  );
}

/**
 * Counts what each owner has, and enforces the limits of the owner's token or of its role. Submissions in progress count as well,
 * so that many at once cannot exceed a limit.
 */
export class Owners {
  /** Submissions in progress that may become jobs, with the bytes that each takes of what its owner may keep. */
  readonly #submissions = new Set<{ readonly owner: Owner; bytes: number }>();

  constructor(
    private readonly jobs: JobTable,
    private readonly maxJobs: number,
    private readonly limits: Pick<OwnerLimits, 'maxJobs'>,
  ) {}

  /** What an owner has at the moment. */
  of(owner: Owner): Use {
    const jobs = [...this.jobs.values()].filter(({ request }) => request.owner === owner);
    const active = jobs.filter(({ isFinal }) => !isFinal).length;
    const submissions = [...this.#submissions].filter((each) => each.owner === owner);
    return {
      ended: jobs.length - active,
      active,
      keptBytes: sumOf(jobs.map(({ keptBytes }) => keptBytes ?? 0)),
      submissions: submissions.length,
      submittedBytes: sumOf(submissions.map(({ bytes }) => bytes)),
    };
  }

  /** How many submissions are in progress. */
  get submissions(): number {
    return this.#submissions.size;
  }

  /**
   * Takes a place among the active jobs for a submission, which `release` gives back.
   * @param stated bytes of the request; undefined if the request does not say
   * @throws ServiceError `busy` or `keptFull`; the message says which limit, whose it is, and how large
   */
  take(principal: Principal, stated: number | undefined): Allowed & { release(): unknown } {
    const { name } = principal;
    const { max_kept } = principal.limits;
    const use = this.of(name);
    this.#checkJobs(principal, use);
    const { bytes, advice } = this.#allowance(principal, use, stated ?? 0);
    const submission = { owner: name, bytes: max_kept === null ? 0 : (stated ?? bytes ?? 0) };
    this.#submissions.add(submission);
    return {
      bytes,
      advice,
      count: (counted) => {
        if (max_kept === null) return;
        const { keptBytes, submittedBytes } = this.of(name);
        const kept = keptBytes + submittedBytes - submission.bytes;
        const isMore = counted > submission.bytes;
        if (isMore && kept + counted > max_kept.max) throw keptFull(name, kept, max_kept);
        submission.bytes = counted;
      },
      release: () => this.#submissions.delete(submission),
    };
  }

  /**
   * Bytes that all uploads of an owner together may occupy, in addition to its jobs and the submissions in progress; null for no
   * limit.
   * @param length bytes of a new upload
   * @throws ServiceError `uploadTooLarge` or `keptFull`
   */
  roomForUpload({ name, limits: { max_kept, max_upload } }: Principal, length: number): number | null {
    if (max_upload !== null && length > max_upload.max) {
      const detail = `The upload is larger than the limit of ${formatBytes(max_upload.max)} ${max_upload.whose}`;
      throw new ServiceError('uploadTooLarge', detail);
    }
    if (max_kept === null) return null;
    const { keptBytes, submittedBytes } = this.of(name);
    const kept = keptBytes + submittedBytes;
    if (kept + length > max_kept.max) throw keptFull(name, kept, max_kept);
    return max_kept.max - kept;
  }

  /** Places that only owners without an active job may take: an eighth, rounded up, but never all. */
  get #reservedPlaces(): number {
    return Math.min(Math.ceil(this.maxJobs / 8), this.maxJobs - 1);
  }

  /**
   * Number of shared places that jobs and submissions take. Jobs beyond the limit of their owner take none: otherwise one owner
   * could fill all places.
   */
  get #takenPlaces(): number {
    const active = [...this.jobs.values()].filter(({ isFinal }) => !isFinal);
    const places = new Map<Owner, number>();
    for (const owner of [
      ...active.map(({ request }) => request.owner),
      ...[...this.#submissions].map((each) => each.owner),
    ])
      places.set(owner, (places.get(owner) ?? 0) + 1);
    const shared = [...places].map(([owner, count]) => Math.min(count, this.limits.maxJobs(owner) ?? count));
    return sumOf(shared);
  }

  /**
   * Checks whether an owner may submit another job. Up to `maxWaiting` jobs beyond the owner's limit wait for their turn. With a
   * limit of 0 they would wait for ever, so none are accepted.
   */
  #checkJobs({ name, limits: { max_jobs: limit } }: Principal, { active, submissions }: Use): void {
    const own = active + submissions;
    if (limit === null || own < limit.max) {
      const taken = this.#takenPlaces;
      if (taken >= this.maxJobs) {
        const [jobs, verb] = [counted(this.maxJobs, 'job'), this.maxJobs === 1 ? 'is' : 'are'];
        const detail = `Server busy: ${jobs} ${verb} active, the most there may be; try again later`;
        throw new ServiceError('busy', detail);
      }
      // Without a name, everybody has the same owner.
      if (name !== null && own > 0 && taken >= this.maxJobs - this.#reservedPlaces) {
        const detail = `Server busy: ${taken} of ${this.maxJobs} jobs are active, and the remaining places are for people without an active job; try again later`;
        throw new ServiceError('busy', detail);
      }
      return;
    }
    const { max, whose } = limit;
    if (max === 0) {
      const detail = `${capitalised(ownerInWords(name))} may have no active jobs (the limit ${whose})`;
      throw new ServiceError('busy', detail);
    }
    if (own < max + maxWaiting) return;
    throw new ServiceError(
      'busy',
      `Server busy: ${maxWaiting} jobs of ${ownerInWords(name)} wait for its limit of ${counted(max, 'active job')} (the limit ${whose}), ` +
        'the most that may wait; wait for some to end, or kill some',
    );
  }

  /** The size limit of a submission, or the space that its owner has left if that is less. */
  #allowance({ name, limits: { max_kept, max_upload } }: Principal, use: Use, stated: number) {
    const ofUpload = { bytes: max_upload?.max ?? null, advice: max_upload ? ` ${max_upload.whose}` : '' };
    if (max_kept === null) return ofUpload;
    const { max, whose } = max_kept;
    const kept = use.keptBytes + use.submittedBytes;
    const left = max - kept;
    if (left <= 0 || stated > left) throw keptFull(name, kept, max_kept);
    if (ofUpload.bytes !== null && ofUpload.bytes <= left) return ofUpload;
    return {
      bytes: left,
      advice: `, which is left of the ${formatBytes(max)} that its jobs may keep (the limit ${whose})`,
    };
  }
}
