import type { Limit } from '../../access/limits.js';
import { type Owner, ownerInWords, type Principal } from '../../access/principal.js';
import { formatBytes } from '../../contract/bytes.js';
import { counted } from '../../contract/counted.js';
import { FieldError, ServiceError } from '../../contract/errors.js';
import { type DeviceRequest, gpusOf } from '../executors/executor.js';

/** What owners have at the moment, besides what they upload. */
export interface OwnedNow {
  readonly activeJobsOf: (owner: Owner) => number;
  readonly keptBytesOf: (owner: Owner) => number;
}

/** A submission that its owner's limits allow. */
export interface Allowed {
  /** Bytes that the upload may have; null if its owner has no such limit. */
  readonly bytes: number | null;
  /** What a sentence about that limit ends with: whose it is. */
  readonly advice: string;
  /**
   * Says how many bytes the upload takes of what its owner may keep, with what its archives extract to: by and by, as that
   * becomes known.
   * @throws ServiceError `keptFull`
   */
  hold(bytes: number): void;
  release(): void;
}

interface Uploads {
  jobs: number;
  bytes: number;
}

const capitalised = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** The error of an upload for which the jobs of its owner keep too much. */
const keptFull = (owner: Owner, kept: number, { most, whose }: Limit): ServiceError =>
  new ServiceError(
    'keptFull',
    `The jobs of ${ownerInWords(owner)} keep ${formatBytes(kept)} of the ${formatBytes(most)} that they may keep (the limit ${whose}), ` +
      `which leaves too little for this upload; 'remote-app rm JOB...' removes jobs that have ended`,
  );

/** Holds each owner to what their token, or its role, may have. Uploads under way count, so that many at once do not pass. */
export class OwnerLimits {
  readonly #uploads = new Map<Owner, Uploads>();

  constructor(private readonly now: OwnedNow) {}

  /**
   * Takes a place for an upload.
   * @param stated bytes of the request; undefined if it does not say
   * @throws ServiceError `busy`, `uploadTooLarge` or `keptFull`; the sentence says which limit, whose, and how much it is
   */
  take(asker: Principal, stated: number | undefined): Allowed {
    const { name } = asker;
    const uploads = this.#uploads.get(name) ?? { jobs: 0, bytes: 0 };
    this.#checkJobs(asker, uploads);
    const { bytes, advice } = this.#room(asker, uploads, stated ?? 0);
    const { max_kept } = asker.limits;
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
        if (held > reserved && kept + held > max_kept.most) throw keptFull(name, kept, max_kept);
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

  /** @throws FieldError for a job that asks for more GPUs than its owner may have at once: it would wait for ever */
  checkGpus({ name, limits: { max_gpus: limit } }: Principal, field: string, request: DeviceRequest): void {
    const asked = gpusOf(request);
    if (limit === null || asked <= limit.most) return;
    throw new FieldError(
      field,
      `asks for ${counted(asked, 'GPU')}; ${ownerInWords(name)} may have ${limit.most} at once (the limit ${limit.whose})`,
    );
  }

  #checkJobs({ name, limits: { max_jobs: limit } }: Principal, uploads: Uploads): void {
    if (limit === null || this.now.activeJobsOf(name) + uploads.jobs < limit.most) return;
    throw new ServiceError(
      'busy',
      `${capitalised(ownerInWords(name))} has ${counted(limit.most, 'active job')}, the most that it may have (the limit ${limit.whose}); wait for one to end, or kill one`,
    );
  }

  /** The smaller one of what an upload may have, and what its owner may still keep. */
  #room({ name, limits: { max_kept, max_upload } }: Principal, uploads: Uploads, stated: number) {
    const ofUpload = { bytes: max_upload?.most ?? null, advice: max_upload ? ` ${max_upload.whose}` : '' };
    if (max_kept === null) return ofUpload;
    const { most, whose } = max_kept;
    const kept = this.now.keptBytesOf(name) + uploads.bytes;
    const left = most - kept;
    if (left <= 0 || stated > left) throw keptFull(name, kept, max_kept);
    if (ofUpload.bytes !== null && ofUpload.bytes <= left) return ofUpload;
    return {
      bytes: left,
      advice: `, which is left of the ${formatBytes(most)} that its jobs may keep (the limit ${whose})`,
    };
  }
}
