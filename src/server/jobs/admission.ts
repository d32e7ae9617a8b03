import type { Owner, Principal } from '../../access/index.js';
import {
  type Capacity,
  FieldError,
  type FieldValue,
  maxDuration,
  type Needs,
  type OperationName,
  operationOf,
  ServiceError,
  shortage,
  shuttingDownDetail,
  spellDuration,
} from '../../contract/index.js';
import { deferred } from '../../files/index.js';
import type { AskedDevices, DeviceRequest, Executor } from '../executors/index.js';
import type { Job } from './job.js';
import type { JobDirectory } from './job-directory.js';
import { type JobTable, keyOf } from './job-table.js';
import { type Allowed, checkGpus, type OwnerLimits, type Owners } from './owners.js';
import type { Evictable, Retention } from './retention.js';
import type { JobStore } from './store.js';
import type { Trash } from './trash.js';

/** A submission in progress that has an idempotency key. */
interface Keyed {
  /** Resolves when it has become a job or failed. */
  readonly settled: Promise<void>;
  readonly settle: () => void;
  /** Aborted when a repetition of the submission waits for it. */
  readonly awaited: AbortController;
}

/** A place among the active jobs, reserved before the body is read, with a directory for what arrives. */
export interface Slot extends AsyncDisposable {
  readonly directory: JobDirectory;
  /** The directory of the job once it is accepted. */
  readonly finalDirectory: JobDirectory;
  /** What remains of its owner's limits. */
  readonly allowed: Allowed;
  /** Aborted when a repetition of the submission is waiting for it. */
  readonly awaited: AbortSignal;
  /** Set once the submission is a job. Otherwise disposing of the slot removes what arrived. */
  job: Job | null;
}

/** Uploads that submissions may name. An owner's uploads are removed before that owner's results when space is short. */
export interface KeptUploads {
  /** Bytes that the uploads of each owner occupy, or will occupy once they are complete. */
  usage(): readonly { readonly owner: Owner; readonly bytes_kept: number }[];
  /** Uploads that nobody needs now, least recently used first. */
  evictable(): readonly Evictable[];
  /** Evicts uploads of an owner that nobody uses, until the uploads have at most `maxBytes`. */
  trim(owner: Owner, maxBytes: number): void;
}

export interface AdmissionDeps {
  readonly jobs: JobTable;
  readonly owners: Owners;
  readonly store: JobStore;
  readonly retention: Retention;
  readonly trash: Trash;
  readonly limits: OwnerLimits;
  /** Null if the server keeps no uploads. */
  readonly uploads: KeptUploads | null;
  /** Whether an upgrade has replaced the program: then no job may start. */
  readonly isUpgraded: () => boolean;
}

/** Reserves a place for each submission, and recognises repetitions by their idempotency keys. */
export class Admission {
  /** Whether new jobs are refused until an admin says otherwise. */
  isDraining = false;
  /** Whether the server is stopping. */
  isClosed = false;
  readonly #inProgress = new Map<string, Keyed>();

  constructor(private readonly deps: AdmissionDeps) {}

  /** @throws ServiceError `shuttingDown` */
  refuseWhenClosed(): void {
    if (this.isClosed) throw new ServiceError('shuttingDown', shuttingDownDetail);
  }

  /**
   * Begins a submission. If another submission with the same key is in progress, waits for it first.
   * @param stated bytes of the request; undefined if the request does not say
   * @returns the job of an earlier submission with this key, if there is one
   * @throws ServiceError `busy`, `keptFull`, `draining`, `upgraded` or `shuttingDown`
   */
  async begin(
    principal: Principal,
    idempotencyKey: string | null,
    stated: number | undefined,
  ): Promise<Job | Slot> {
    const key = keyOf(principal.name, idempotencyKey);
    for (let first = this.#pending(key); first; first = this.#pending(key)) {
      first.awaited.abort();
      await first.settled;
    }
    const job = key === null ? undefined : this.deps.jobs.withKey(key);
    if (job) return job;
    const keyed = this.#claim(key);
    try {
      const { jobs, retention, owners } = this.deps;
      if (principal.limits.max_kept !== null) await jobs.measuredOf(principal.name);
      await retention.keepFewer(principal.name, owners.of(principal.name).ended);
      this.refuseWhenClosed();
      return this.#reserve(principal, stated, keyed);
    } catch (cause) {
      keyed.settle();
      throw cause;
    }
  }

  #pending(key: string | null): Keyed | undefined {
    return key === null ? undefined : this.#inProgress.get(key);
  }

  #claim(key: string | null): Keyed {
    const { promise: settled, resolve } = deferred<void>();
    const settle = () => {
      if (key !== null) this.#inProgress.delete(key);
      resolve();
    };
    const keyed = { settled, settle, awaited: new AbortController() };
    if (key !== null) this.#inProgress.set(key, keyed);
    return keyed;
  }

  #reserve(principal: Principal, stated: number | undefined, keyed: Keyed): Slot {
    const { store, trash, owners, isUpgraded } = this.deps;
    if (this.isDraining) {
      const detail = 'The server is draining and accepts no new jobs; submit again later';
      throw new ServiceError('draining', detail);
    }
    if (isUpgraded()) {
      const detail =
        'The program was upgraded while the server was running; it accepts no new jobs until its admin restarts it';
      throw new ServiceError('upgraded', detail);
    }
    const allowed = owners.take(principal, stated);
    let directory: JobDirectory;
    try {
      directory = store.create();
    } catch (cause) {
      allowed.release();
      throw cause;
    }
    const slot: Slot = {
      directory,
      finalDirectory: store.finalDirectory(directory),
      allowed,
      awaited: keyed.awaited.signal,
      job: null,
      [Symbol.asyncDispose]: async () => {
        // Releases the place even if removing the files fails.
        allowed.release();
        keyed.settle();
        if (slot.job) this.#trimUploads(principal.name);
        else await trash.throwAway(directory.path, true);
      },
    };
    return slot;
  }

  /** Evicts uploads that leave an owner's jobs too little of the space that the owner may use. */
  #trimUploads(owner: Owner): void {
    const { limits, uploads, owners } = this.deps;
    const max = limits.maxKept(owner);
    if (max !== null) uploads?.trim(owner, max - owners.of(owner).keptBytes);
  }
}

export interface JobTermsDeps {
  readonly executor: Executor;
  /** Bytes that a job may write. */
  readonly diskPerJob: number;
  /** Minimum time in milliseconds that a job is kept. */
  readonly grace: number;
  /** Maximum time in milliseconds that a job is kept after its end, if greater than `grace`. */
  readonly maxKeep: number;
  /** Milliseconds that a job may run; null for no limit. */
  readonly maxRunTime: number | null;
  /** Milliseconds that a fine-tuning job may run; null for no limit. */
  readonly maxFineTuneTime: number | null;
}

const tooLong = (field: string, max: number, seconds: number): FieldError =>
  new FieldError(field, `is at most ${spellDuration(max)} on this server, got ${spellDuration(seconds)}`);

/** Checks a new job's requests against what this server allows. A refusal names the field in question. */
export class JobTerms {
  constructor(private readonly deps: JobTermsDeps) {}

  /** Maximum resources of a single job. */
  get capacity(): Capacity {
    return { ...this.deps.executor.capacity(), disk: this.deps.diskPerJob };
  }

  /**
   * The device request of a new job.
   * @param app name of the app
   * @param needs what the app needs
   * @throws ServiceError if the devices are known not to exist, or to be too small for the app, or are more than their owner
   *   may have
   */
  devices(
    principal: Principal,
    field: string,
    asked: AskedDevices,
    app: string,
    needs: Needs,
  ): DeviceRequest {
    const request = this.deps.executor.check(asked);
    const lacks = shortage(app, needs, asked, this.capacity);
    if (lacks !== null) throw new ServiceError('invalidField', lacks);
    const { workers } = asked;
    const devices = needs.gpu === 'none' ? ({ kind: 'cpu', workers } as const) : request;
    checkGpus(principal, field, devices);
    return devices;
  }

  /**
   * Seconds that a new job is kept after its end.
   * @param asked the value of the field of that name; undefined asks for the grace period
   * @throws FieldError if that is more than this server allows
   */
  keepFor(field: string, asked: FieldValue | undefined): number {
    const { grace, maxKeep } = this.deps;
    const [min, max] = [grace / 1000, Math.max(grace, maxKeep) / 1000];
    if (asked === maxDuration) return max;
    const seconds = Number(asked ?? 0);
    if (seconds > max) throw tooLong(field, max, seconds);
    return Math.max(seconds, min);
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
    if (max !== null && seconds > max) throw tooLong(field, max, seconds);
    return seconds;
  }
}
