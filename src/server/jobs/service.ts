import { setTimeout as delay } from 'node:timers/promises';
import { mayReach, type Owner, type Principal, theAdmin } from '../../access/index.js';
import { Packer } from '../../archive/index.js';
import {
  acceptance,
  commandOf,
  type DrainState,
  type KillCause,
  type KillReply,
  notRunning,
  ServiceError,
  wireDetails,
} from '../../contract/index.js';
import { isGone } from '../../files/index.js';
import { setAside } from '../data-directory/index.js';
import type { EndedJob } from '../events.js';
import { Admission, type AdmissionDeps, JobTerms, type JobTermsDeps, type Slot } from './admission.js';
import { usualDiskPerJob } from './disk-use.js';
import { ExpiredJobs } from './expired-jobs.js';
import { Job, type JobContext } from './job.js';
import type { JobDirectory } from './job-directory.js';
import { type JobFiles, type JobRequest, newRecord } from './job-record.js';
import { type JobPage, JobTable } from './job-table.js';
import { Lifecycle, type LifecycleDeps } from './lifecycle.js';
import { Owners } from './owners.js';
import { type Evictable, Retention, type RetentionDeps } from './retention.js';
import { JobStore, type StoredJob, UnreadableJobs } from './store.js';
import { Trash } from './trash.js';

export interface JobServiceDeps
  extends JobContext,
    Omit<JobTermsDeps, 'diskPerJob'>,
    Pick<LifecycleDeps, 'apps'>,
    Pick<AdmissionDeps, 'limits' | 'uploads' | 'isUpgraded'>,
    Pick<RetentionDeps, 'maxKeptJobs'> {
  /** Path of the data directory, which this server has locked. */
  readonly dataDirectory: string;
  /** Jobs that may be active at once. */
  readonly maxJobs: number;
  /** Bytes that a job may write; null for the default of its disk. */
  readonly diskPerJob: number | null;
}

/** Milliseconds after which a kill is answered even if the job has not ended. */
const killTimeout = 20_000;
/** Milliseconds after which a removal is answered even if files are left, which are no longer visible to anybody. */
const removalTimeout = 20_000;
/** Milliseconds that the notice of a job's end waits for the version of its app. */
const versionWait = 2000;

/** What is known about a submission besides its request. */
export interface SubmissionFacts {
  readonly files: JobFiles;
  /** Lines for the job's log. */
  readonly notes: readonly string[];
  /** Bytes of the request's body. */
  readonly bytes: number;
  /** Bytes of the content extracted from its archives. */
  readonly extracted: number;
}

/** Whether active jobs are killed, or left to the next server, when the server stops. */
export type OnExit = 'kill' | 'keep';

/** Owns the state of all jobs. Knows nothing about the transport. */
export class JobService {
  /** The options that new jobs may request. */
  readonly terms: JobTerms;
  readonly #owners: Owners;
  readonly #jobs: JobTable;
  /** The jobs that have not ended, by id. */
  readonly #active = new Map<string, { readonly lifecycle: Lifecycle; readonly end: Promise<void> }>();
  readonly #admission: Admission;
  readonly #retention: Retention;
  readonly #unreadable: UnreadableJobs;
  readonly #lifecycleDeps: LifecycleDeps;
  readonly #store: JobStore;
  readonly #expired: ExpiredJobs;
  readonly #trash: Trash;

  /** @throws SetupError if the data directory is on more than one file system */
  constructor(private readonly deps: JobServiceDeps) {
    const { dataDirectory, executor, clock, report } = deps;
    const store = new JobStore(dataDirectory, report);
    const expired = new ExpiredJobs(dataDirectory, clock, report);
    const trash = new Trash(dataDirectory, report);
    const jobs = new JobTable();
    const owners = new Owners(jobs, deps.maxJobs, deps.limits);
    const retention = new Retention({ ...deps, jobs, expired, trash });
    const diskPerJob = deps.diskPerJob ?? usualDiskPerJob(dataDirectory);
    this.#store = store;
    this.#expired = expired;
    this.#trash = trash;
    this.#owners = owners;
    this.#jobs = jobs;
    this.#retention = retention;
    this.#admission = new Admission({ ...deps, jobs, owners, store, retention, trash });
    this.#unreadable = new UnreadableJobs(store, executor, clock, report);
    this.#lifecycleDeps = { ...deps, packer: new Packer(), trash, diskPerJob };
    this.terms = new JobTerms({ ...deps, diskPerJob });
  }

  /**
   * Loads the jobs of the data directory. Removes only submissions that were never accepted, and jobs that are recorded as
   * expired. Sets aside entries that are damaged or do not belong to this service. Starts nothing.
   */
  async load(): Promise<{ readonly ended: number; readonly active: number }> {
    this.#trash.empty();
    for (const each of this.#store.scan()) {
      if (each.kind === 'foreign') {
        setAside(this.deps.dataDirectory, each.path, each.why, this.deps.report);
      } else if (each.kind === 'incoming' || this.#expired.has(each.directory.id)) {
        void this.#trash.throwAway(each.directory.path);
      } else if (each.kind === 'damaged' || each.kind === 'unreadable') {
        const accepted = this.#unreadable.add(each);
        if (accepted) this.#restore(accepted);
      } else {
        this.#restore(each);
      }
    }
    await Promise.race([this.#endOrphans(), delay(killTimeout, undefined, { ref: false })]);
    const ended = [...this.#jobs.values()].filter((job) => job.isFinal).length;
    return { ended, active: this.#jobs.size - ended };
  }

  /** Ends running jobs whose directories were removed while there was no server, because nobody else could end them. */
  async #endOrphans(): Promise<void> {
    const { executor, report } = this.deps;
    const running = executor.runningUnder(this.#store.jobsDirectory);
    const orphans = running.filter(({ path }) => isGone(path));
    for (const { id } of orphans)
      report(`Job ${id} is running, but its directory was removed`, 'it is killed');
    await Promise.all(orphans.map((each) => executor.stop(each)));
  }

  #restore({ directory, record }: StoredJob): Job {
    const job = new Job(directory, record, true, this.deps);
    this.#jobs.add(job);
    return job;
  }

  /** Continues the loaded jobs: finished ones are kept until their time is up, the others run or wait. */
  resume(): void {
    const jobs = [...this.#jobs.values()];
    // Running jobs take their devices before waiting jobs are considered.
    for (const directory of this.#unreadable.directories) void this.#readLater(directory);
    const isRunning = (job: Job) => job.state === 'running';
    for (const job of jobs.filter(isRunning)) this.#goOn(job);
    for (const job of jobs.filter((each) => !isRunning(each))) this.#goOn(job);
  }

  /** Continues a job once its record can be read. Until then, the devices of its command stay reserved. */
  async #readLater(directory: JobDirectory): Promise<void> {
    const release = this.deps.executor.reserve(directory);
    const stored = await this.#unreadable.readable(directory);
    // The job reserves its devices itself before they are released here.
    if (stored) this.#goOn(this.#restore(stored));
    release();
  }

  /** Continues a job of an earlier server. */
  #goOn(job: Job): void {
    if (job.isFinal) {
      void this.#trash.discardInput(job.directory);
      this.#retention.restore(job);
    } else {
      this.#live(job);
    }
    this.#jobs.measure(job);
  }

  /** Begins a submission (`Admission.begin`). */
  begin(
    principal: Principal,
    idempotencyKey: string | null,
    stated: number | undefined,
  ): Promise<Job | Slot> {
    return this.#admission.begin(principal, idempotencyKey, stated);
  }

  /**
   * Turns a submission into a job, which survives a power cut once this resolves.
   * @throws ServiceError `shuttingDown`; the system's error
   */
  async accept(slot: Slot, request: JobRequest, facts: SubmissionFacts): Promise<Job> {
    this.#admission.refuseWhenClosed();
    const { files, notes, bytes, extracted } = facts;
    const { clock, events } = this.deps;
    const { directory } = slot;
    directory.log(`${acceptance(directory.id)}: ${commandOf(request.operation)} on ${request.app}`);
    for (const note of notes) directory.log(note);
    const record = newRecord(directory.id, request, new Date(clock.now()).toISOString(), bytes);
    const job = new Job(await this.#store.accept(directory, record, files), record, false, this.deps);
    slot.job = job;
    this.#jobs.add(job);
    job.keptBytes = bytes + extracted;
    events.announce('accepted', { ...job.facts, bytes });
    // A stopping server starts nothing; the job stays on the disk for the next one.
    if (!this.#admission.isClosed) this.#live(job);
    return job;
  }

  /** Takes a job from the queue to its end, and keeps it from then on until its time is up. */
  #live(job: Job): void {
    const lifecycle = new Lifecycle(job, this.#lifecycleDeps);
    const end = lifecycle.run().finally(() => {
      this.#active.delete(job.id);
      if (!this.#admission.isClosed) this.#retention.schedule(job);
      void this.#trash.discardInput(job.directory);
      this.#jobs.measure(job);
    });
    this.#active.set(job.id, { lifecycle, end });
  }

  /**
   * Bytes that all uploads of an owner together may occupy, in addition to its jobs; null for no limit. Waits until the disk use
   * of its jobs is known.
   * @param length bytes of a new upload
   * @throws ServiceError `uploadTooLarge`, `keptFull` or `shuttingDown`
   */
  async roomForUpload(principal: Principal, length: number): Promise<number | null> {
    this.#admission.refuseWhenClosed();
    if (principal.limits.max_kept !== null) await this.#jobs.measuredOf(principal.name);
    return this.#owners.roomForUpload(principal, length);
  }

  /** Refuses new jobs from now on, or accepts them again. Submissions in progress still become jobs. */
  drain(isDraining: boolean): void {
    if (isDraining === this.#admission.isDraining) return;
    this.#admission.isDraining = isDraining;
    this.deps.events.announce('drained', { isDraining, active: this.drainState.active });
  }

  get drainState(): Omit<DrainState, 'gpus'> {
    return { draining: this.#admission.isDraining, active: this.active + this.#owners.submissions };
  }

  /**
   * The job with this id, if the sender may see it: other people's jobs count as unknown. If its record cannot be read, its owner
   * is not known, so only an admin learns that the job exists.
   * @throws ServiceError `unknownJob` or `expired`
   */
  get(id: string, principal: Principal): Job {
    const job = this.#jobs.get(id);
    if (job && mayReach(principal, job.request.owner)) return job;
    if (principal.role === 'admin') this.#unreadable.check(id);
    this.#expired.check(id, principal);
    throw new ServiceError('unknownJob', wireDetails.unknownJob);
  }

  /** The ends of jobs for which the admin's program was to run, but did not because the server stopped. */
  unnoticedEnds(): EndedJob[] {
    return this.list().flatMap((job) => (job.record.endNotice === 'due' ? (job.end() ?? []) : []));
  }

  /**
   * Records that the admin's program is about to run for the end of a job.
   * @returns the end, with the version of the app if that has become known; null if the program must not run
   * @throws the system's error if it cannot be recorded
   */
  async beginEndNotice(end: EndedJob): Promise<EndedJob | null> {
    const job = this.#jobs.get(end.id);
    // A job that is missing here has just ended and been removed: a job that ended earlier is loaded with its record.
    if (!job) return end;
    await job.versionKnown(versionWait);
    return (await job.beginEndNotice()) ? { ...end, version: job.version } : null;
  }

  /** All jobs, with the disk space that each keeps. */
  async kept() {
    await this.#jobs.measured();
    return this.list().map((job) => ({
      owner: job.request.owner,
      app: job.request.app,
      endedAt: job.isFinal ? job.commandEndedAt : null,
      bytes: job.keptBytes ?? 0,
    }));
  }

  /** Number of jobs that have not ended. */
  get active(): number {
    return this.#active.size;
  }

  /** All jobs, newest first. */
  list(): Job[] {
    return this.#jobs.list();
  }

  /** One page of the jobs, newest first. */
  page(page: JobPage): Job[] {
    return this.#jobs.page(page);
  }

  /** Ends a job in any state. Resolves when none of its processes is left. Idempotent. */
  async kill(job: Job, by: KillCause = 'user'): Promise<KillReply> {
    const active = this.#active.get(job.id);
    if (job.isFinal || !active) return { job_id: job.id, status: job.state, message: notRunning };
    active.lifecycle.kill(by);
    await Promise.race([active.end, delay(killTimeout, undefined, { ref: false })]);
    if (!job.isFinal) {
      const message = 'The job was asked to end, but a process of it cannot be ended; ask again later';
      return { job_id: job.id, status: job.state, message };
    }
    const message = job.state === 'killed' ? 'Job killed' : 'Job ended before it could be killed';
    return { job_id: job.id, status: job.state, message };
  }

  /**
   * Removes a job that has ended, with its files.
   * @throws ServiceError `jobActive`, or `expired` if it is already gone
   */
  async remove(job: Job): Promise<void> {
    if (!job.isFinal) {
      const detail = `Job ${job.id} is ${job.state}; kill it first, or wait for its end`;
      throw new ServiceError('jobActive', detail);
    }
    // The last steps of its run may still rely on its directory, so they are awaited first.
    await this.#active.get(job.id)?.end;
    const removed = this.#retention.remove(this.get(job.id, theAdmin));
    await Promise.race([removed, delay(removalTimeout, undefined, { ref: false })]);
  }

  /** Bytes that can be freed for an owner who is about to keep `more` bytes. Removes nothing. */
  async evictable(owner: Owner, more: number): Promise<number> {
    let sum = 0;
    for (const { bytes } of await this.#evictions(owner, more)) sum += bytes;
    return sum;
  }

  /**
   * Makes room on the disk, in the order of `#evictions`.
   * @param bytes how many are missing
   * @returns false if that many cannot be freed; nothing is removed then
   */
  async makeRoom(bytes: number, requester: Owner): Promise<boolean> {
    const chosen: Evictable[] = [];
    let freed = 0;
    for (const each of await this.#evictions(requester, 0)) {
      if (freed >= bytes) break;
      chosen.push(each);
      freed += each.bytes;
    }
    if (chosen.length === 0 || freed < bytes) return false;
    for (const { owner, id = null, bytes, remove } of chosen) {
      await remove();
      this.deps.events.announce('evicted', { owner, id, bytes, requester });
    }
    return true;
  }

  /**
   * What may be removed to make room for a requester: first the requester's own files, then files of owners who keep more than
   * the requester, starting with the owner who keeps most. Nobody loses files to somebody who keeps more. Among the files of one
   * owner, uploads that nobody needs now go first, then jobs whose results were fetched, then the files of failed jobs. A result
   * that nobody has fetched stays as long as promised.
   * @param more bytes that the requester is about to keep
   */
  async #evictions(requester: Owner, more: number): Promise<Evictable[]> {
    await this.#jobs.measured();
    const { uploads } = this.deps;
    const sent = new Map(uploads?.usage().map(({ owner, bytes_kept }) => [owner, bytes_kept]));
    const keepers = new Map<Owner, { kept: number; readonly waiting: Evictable[] }>();
    const keeperOf = (owner: Owner) => {
      const known = keepers.get(owner);
      const keeper = known ?? {
        kept: this.#owners.of(owner).keptBytes + (sent.get(owner) ?? 0),
        waiting: [],
      };
      if (!known) keepers.set(owner, keeper);
      return keeper;
    };
    for (const each of [...(uploads?.evictable() ?? []), ...this.#retention.evictable()])
      keeperOf(each.owner).waiting.push(each);
    const own = keeperOf(requester);
    const chosen = own.waiting;
    const limit = own.kept + more - chosen.reduce((sum, { bytes }) => sum + bytes, 0);
    keepers.delete(requester);
    // Reversed, so that `pop` takes the first to go.
    for (const { waiting } of keepers.values()) waiting.reverse();
    for (;;) {
      let largest = { kept: limit, waiting: [] as Evictable[] };
      for (const each of keepers.values())
        if (each.waiting.length > 0 && each.kept > largest.kept) largest = each;
      const next = largest.waiting.pop();
      if (!next) return chosen;
      chosen.push(next);
      largest.kept -= next.bytes;
    }
  }

  /** Keeps a result from expiring while it is sent. Returns a function that ends this. */
  delayExpiry(job: Job): () => void {
    return this.#retention.delayExpiry(job);
  }

  /** Stops accepting new jobs. Kills the active ones, or leaves them to the next server. */
  async close(onExit: OnExit): Promise<void> {
    this.#admission.isClosed = true;
    this.#retention.close();
    this.#trash.close();
    this.#unreadable.close();
    if (onExit === 'kill') {
      const { executor } = this.deps;
      const unreadable = this.#unreadable.directories.filter((each) => executor.isRunning(each));
      const killed = [...this.#jobs.values()].map((job) => this.kill(job, 'stop'));
      await Promise.all([...killed, ...unreadable.map((each) => executor.stop(each))]);
    } else {
      await Promise.all([...this.#active.values()].map(({ lifecycle }) => lifecycle.leave()));
    }
    await Promise.all([...this.#jobs.values()].map((job) => job.leave()));
  }
}
