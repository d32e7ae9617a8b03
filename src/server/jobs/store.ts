import { randomBytes } from 'node:crypto';
import { existsSync, lstatSync, mkdirSync, readdirSync, renameSync } from 'node:fs';
import path from 'node:path';
import { jobIdBytes, jobIdPattern, ServiceError } from '../../contract/index.js';
import {
  type Clock,
  errorCode,
  faultWithoutPath,
  NotOurFile,
  pause,
  syncDirectory,
  syncDirectorySync,
  syncTree,
} from '../../files/index.js';
import { ownDirectory, setAside } from '../data-directory/index.js';
import type { Executor } from '../executors/index.js';
import type { Report } from '../report.js';
import { JobDirectory } from './job-directory.js';
import type { JobFiles, JobRecord } from './job-record.js';

export interface StoredJob {
  readonly directory: JobDirectory;
  readonly record: JobRecord;
}

/** An entry in the jobs directory. */
export type Found =
  | ({ readonly kind: 'job' } & StoredJob)
  /** A submission that was never accepted. */
  | { readonly kind: 'incoming'; readonly directory: JobDirectory }
  /** A directory with the name of a job whose record is missing or invalid. */
  | {
      readonly kind: 'damaged';
      readonly directory: JobDirectory;
      readonly why: string;
      /** The record of the job as it was accepted, if it still exists. */
      readonly accepted: JobRecord | undefined;
    }
  /** A directory with the name of a job whose record is temporarily unreadable. */
  | { readonly kind: 'unreadable'; readonly directory: JobDirectory; readonly why: string }
  /** Neither a job nor a submission of this service. */
  | { readonly kind: 'foreign'; readonly path: string; readonly why: string };

/**
 * The job directories of one data directory, which are the only record of the jobs. A submission is in `DATA/incoming` until
 * it is accepted. Then the whole directory is renamed into `DATA/jobs`, so that a job always has a `job.json`.
 */
export class JobStore {
  readonly jobsDirectory: string;
  readonly #incoming: string;

  /** @throws SetupError if the data directory is on more than one file system */
  constructor(
    readonly dataDirectory: string,
    report: Report,
  ) {
    this.jobsDirectory = ownDirectory(dataDirectory, 'jobs', report);
    this.#incoming = ownDirectory(dataDirectory, 'incoming', report);
    syncDirectorySync(dataDirectory);
  }

  /** A new directory for a submission, with an id that no job has. */
  create(): JobDirectory {
    const id = randomBytes(jobIdBytes).toString('hex');
    if (existsSync(path.join(this.jobsDirectory, id))) return this.create();
    const directory = new JobDirectory(id, path.join(this.#incoming, id));
    mkdirSync(directory.path, { mode: 0o700 });
    return directory;
  }

  /** The directory of a submission once it is a job. */
  finalDirectory(incoming: JobDirectory): JobDirectory {
    return new JobDirectory(incoming.id, path.join(this.jobsDirectory, incoming.id));
  }

  /**
   * Turns a submission into a job in one step, after its record, its log and all its files were synced to the disk.
   * @throws the system's error; then it is not a job
   */
  async accept(incoming: JobDirectory, record: JobRecord, files: JobFiles): Promise<JobDirectory> {
    incoming.saveFirst(record, files);
    await syncTree(incoming.path);
    const directory = this.finalDirectory(incoming);
    renameSync(incoming.path, directory.path);
    try {
      await syncDirectory(this.jobsDirectory);
    } catch (cause) {
      renameSync(directory.path, incoming.path);
      throw cause;
    }
    return directory;
  }

  /** All entries among the jobs, oldest job first, and abandoned submissions. Changes nothing. */
  scan(): Found[] {
    const found: Found[] = [];
    for (const name of readdirSync(this.jobsDirectory)) found.push(this.look(name));
    for (const name of readdirSync(this.#incoming)) {
      const entry = path.join(this.#incoming, name);
      if (jobIdPattern.test(name)) found.push({ kind: 'incoming', directory: new JobDirectory(name, entry) });
      else found.push({ kind: 'foreign', path: entry, why: 'it is not a submission' });
    }
    const time = (each: Found) => (each.kind === 'job' ? each.record.createdAt : '');
    return found.sort((a, b) => (time(a) < time(b) ? -1 : 1));
  }

  /** The entry with this name among the jobs. */
  look(name: string): Found {
    const entry = path.join(this.jobsDirectory, name);
    const directory = new JobDirectory(name, entry);
    try {
      if (!jobIdPattern.test(name) || !lstatSync(entry).isDirectory()) {
        return { kind: 'foreign', path: entry, why: 'it is not a job' };
      }
      const record = directory.load();
      if (record) return { kind: 'job', directory, record };
      return { kind: 'damaged', directory, why: 'it has no job.json', accepted: undefined };
    } catch (cause) {
      const why = faultWithoutPath(cause);
      if (errorCode(cause) !== '') return { kind: 'unreadable', directory, why };
      // The text was read and is not a record, so a retry would not help. A power cut cannot have caused a file of
      // another kind.
      const accepted = cause instanceof NotOurFile ? undefined : directory.loadFirst();
      return { kind: 'damaged', directory, why, accepted };
    }
  }
}

/** Milliseconds between two attempts to read a record. */
const retryInterval = 2000;

type Damaged = Extract<Found, { kind: 'damaged' }>;
type Unreadable = Damaged | Extract<Found, { kind: 'unreadable' }>;

/**
 * Jobs whose records cannot be read. A job with a damaged record continues as it was accepted if that record still exists;
 * otherwise it is set aside once its command has ended. A job whose record cannot be read because of a disk error stays where it
 * is and is retried, since a disk may fail only for a moment. Running commands continue meanwhile.
 */
export class UnreadableJobs {
  readonly #waiting = new Map<string, JobDirectory>();
  #isClosing = false;

  constructor(
    private readonly store: JobStore,
    private readonly executor: Executor,
    private readonly clock: Clock,
    private readonly report: Report,
  ) {}

  /** Directories of the jobs that cannot be read at the moment. */
  get directories(): readonly JobDirectory[] {
    return [...this.#waiting.values()];
  }

  /**
   * Sets a job aside, or keeps it for another try.
   * @returns the job as it was accepted if its record is damaged, for example by a power cut; it is then not kept for another
   *   try
   */
  add(unreadable: Unreadable): StoredJob | undefined {
    const { directory, why } = unreadable;
    if (unreadable.kind === 'damaged' && !this.executor.isRunning(directory)) return this.#mend(unreadable);
    this.report(`Job ${directory.id} is left as it is until it can be read`, why);
    this.#waiting.set(directory.id, directory);
    return undefined;
  }

  /** @returns the job as it was accepted; undefined if that is unknown and the job is set aside */
  #mend({ directory, why, accepted }: Omit<Damaged, 'kind'>): StoredJob | undefined {
    if (accepted) {
      this.report(`Job ${directory.id} goes on as it was accepted`, why);
      return { directory, record: accepted };
    }
    setAside(this.store.dataDirectory, directory.path, why, this.report);
    return undefined;
  }

  /** @throws ServiceError for a job that exists but cannot be read */
  check(id: string): void {
    if (!this.#waiting.has(id)) return;
    const detail = `The record of job ${id} cannot be read at the moment; ask again later`;
    throw new ServiceError('unreadableJob', detail);
  }

  /**
   * Tries to read the record of a job until that succeeds, or its command has ended and it can be set aside.
   * @returns the job; undefined if it was set aside, or the server stops
   */
  async readable(directory: JobDirectory): Promise<StoredJob | undefined> {
    for (;;) {
      await pause(this.clock, retryInterval);
      if (this.#isClosing) return undefined;
      const again = this.store.look(directory.id);
      if (again.kind === 'unreadable') continue;
      if (again.kind !== 'job' && this.executor.isRunning(directory)) continue;
      this.#waiting.delete(directory.id);
      const accepted = again.kind === 'damaged' ? again.accepted : undefined;
      return again.kind === 'job'
        ? again
        : this.#mend({ directory, why: 'its job.json is not a record', accepted });
    }
  }

  close(): void {
    this.#isClosing = true;
  }
}
