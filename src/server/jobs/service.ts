import { setTimeout as delay } from 'node:timers/promises';
import { mayReach, type Owner, ownerInWords, type Principal, theAdmin } from '../../access/index.js';
import { Packer } from '../../archive/index.js';
import {
  acceptance,
  commandOf,
  counted,
  type DrainState,
  isFinal,
  type KillCause,
  type KillReply,
  notRunning,
  ServiceError,
  shuttingDownDetail,
  wireDetails,
} from '../../contract/index.js';
import { setAside } from '../data-directory/index.js';
import type { EndedJob, GoneCause, ServerEvents } from '../events.js';
import {
  Admission,
  type AdmissionDeps,
  JobTerms,
  type JobTermsDeps,
  type Slot,
  type SubmissionFacts,
} from './admission.js';
import { usualDiskPerJob } from './disk-use.js';
import { Job } from './job.js';
import { type JobRequest, newRecord } from './job-record.js';
import { endOf, factsOf, followJob, Lifecycle, type LifecycleDeps } from './lifecycle.js';
import { KeptBytes, OwnerLimits } from './owner-limits.js';
import { ExpiredJobs, Retention, type RetentionDeps } from './retention.js';
import { JobStore, type StoredJob, UnreadableJobs } from './store.js';
import { Trash } from './trash.js';

export interface JobServiceDeps
  extends Omit<LifecycleDeps, 'discard' | 'packer' | 'diskPerJob'>,
    Pick<AdmissionDeps, 'maxJobs' | 'isUpgraded'>,
    Pick<JobTermsDeps, 'maxRunTime' | 'maxFineTuneTime'>,
    Pick<RetentionDeps, 'grace' | 'maxKeep'> {
  /** It is locked by this server. */
  readonly dataDirectory: string;
  /** Bytes that a job may write; null for the default of its disk. */
  readonly diskPerJob: number | null;
  /** Active jobs that an owner may have, while further ones wait; null for any number. */
  readonly maxJobsOf: (owner: Owner) => number | null;
  /** Bytes that an owner may keep; null for any number. */
  readonly maxKeptOf: (owner: Owner) => number | null;
  /** Jobs that have ended and that an owner may keep. */
  readonly maxKeptJobs: number;
  /** Null if the server keeps none. */
  readonly uploads: KeptUploads | null;
  /** Whether a program of the admin is run for each end: `serve --on-end`. */
  readonly areEndsNoticed: boolean;
  /** Announces what happens to jobs. */
  readonly events: ServerEvents;
}

/** Milliseconds after which a kill is answered even if the job has not ended. */
const killTimeout = 20_000;
/** Milliseconds after which a removal is answered even if files are left, which are no longer visible to anybody. */
const removalTimeout = 20_000;
/** Milliseconds that the notice of a job's end waits for the version of its app. */
const versionWait = 2000;

/** Something that may be removed when the disk is short. */
export interface Evictable {
  readonly owner: Owner;
  /** Bytes of the disk that this frees. */
  readonly bytes: number;
  /** Resolves when they are free. */
  readonly remove: () => Promise<void>;
}

/** Uploads that submissions may name. An owner's uploads are removed before their results when space is short. */
export interface KeptUploads {
  /** Uploads that nobody needs now, least recently used first. */
  evictable(): readonly Evictable[];
  /** Evicts uploads of an owner until they have at most so many bytes, as far as nobody uses them. */
  trim(owner: Owner, maxBytes: number): void;
}

/** Whether active jobs are killed, or left to the next server, when the server stops. */
export type OnExit = 'kill' | 'keep';

/** Which jobs of the list are asked for. */
interface JobPage {
  readonly isWanted: (job: Job) => boolean;
  readonly limit: number;
  readonly before: Job | null;
}

/** Owns the state of all jobs. It knows no transport. */
export class JobService {
  /** The options that new jobs may request. */
  readonly terms: JobTerms;
  readonly #jobs = new Map<string, Job>();
  readonly #lives = new Map<string, { readonly lifecycle: Lifecycle; readonly end: Promise<void> }>();
  readonly #admission: Admission;
  readonly #retention: Retention;
  readonly #unreadable: UnreadableJobs;
  readonly #kept = new KeptBytes();
  readonly #packer = new Packer();
  readonly #diskPerJob: number;
  readonly #store: JobStore;
  readonly #expired: ExpiredJobs;
  readonly #trash: Trash;
  readonly #owners = new OwnerLimits({
    activeOwners: () => [...this.#lives.keys()].map((id) => this.#jobs.get(id)?.request.owner ?? null),
    maxJobsOf: (owner) => this.deps.maxJobsOf(owner),
    keptBytesOf: (owner) => this.#kept.of(owner),
  });
  #isClosing = false;

  /** @throws SetupError if the data directory is on more than one file system */
  constructor(private readonly deps: JobServiceDeps) {
    const { dataDirectory, maxJobs, isUpgraded, grace, maxKeep, clock, report } = deps;
    const store = new JobStore(dataDirectory, report);
    const expired = new ExpiredJobs(dataDirectory, clock, report);
    const trash = new Trash(dataDirectory, report);
    this.#diskPerJob = deps.diskPerJob ?? usualDiskPerJob(dataDirectory);
    this.#store = store;
    this.#expired = expired;
    this.#trash = trash;
    this.#admission = new Admission({
      store,
      trash,
      maxJobs,
      isUpgraded,
      owners: this.#owners,
      released: (owner) => this.#trimUploads(owner),
    });
    this.#unreadable = new UnreadableJobs({
      store,
      executor: deps.executor,
      clock,
      report,
      found: (stored) => this.#goOn(this.#restore(stored)),
    });
    this.#retention = new Retention({
      expired,
      trash,
      grace,
      maxKeep,
      clock,
      report,
      forget: (job, cause) => this.#forget(job, cause),
    });
    this.terms = new JobTerms({ ...deps, owners: this.#owners, retention: this.#retention });
  }

  /**
   * Loads the jobs of the data directory. Removes only uploads that were never accepted, and jobs that are recorded as
   * expired. Sets aside entries that are damaged or not ours. Starts nothing.
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
    const orphansEnded = this.#unreadable.endOrphans();
    await Promise.race([orphansEnded, delay(killTimeout, undefined, { ref: false })]);
    const ended = this.list().filter((job) => job.isFinal).length;
    return { ended, active: this.#jobs.size - ended };
  }

  #restore({ directory, record }: StoredJob): Job {
    const { report, clock } = this.deps;
    const job = new Job(directory, record, true, report, clock);
    this.#jobs.set(job.id, job);
    this.#admission.remember(job);
    return job;
  }

  /** Continues the loaded jobs: finished ones are kept until their time is up, the others run or wait. */
  resume(): void {
    const jobs = [...this.#jobs.values()];
    // Running jobs take their devices before waiting jobs are considered.
    this.#unreadable.resume();
    const isRunning = (job: Job) => job.state === 'running';
    for (const job of jobs.filter(isRunning)) this.#goOn(job);
    for (const job of jobs.filter((each) => !isRunning(each))) this.#goOn(job);
  }

  /** Continues a job of an earlier server. */
  #goOn(job: Job): void {
    if (job.isFinal) {
      this.#removeInput(job);
      this.#retention.restore(job);
    } else {
      this.#live(job);
    }
    void this.#kept.measure(job);
  }

  /**
   * Begins a submission: reserves a place among the active jobs. Waits until the owner's disk use is known, and while a
   * submission with the same key is in progress.
   * @param stated bytes of the request; undefined if it does not say
   * @returns the job of an earlier submission with this key, if there is one
   * @throws ServiceError `busy`, `keptFull`, `draining`, `upgraded` or `shuttingDown`
   */
  async begin(
    principal: Principal,
    idempotencyKey: string | null,
    stated: number | undefined,
  ): Promise<Job | Slot> {
    const claim = await this.#admission.claim({ owner: principal.name, idempotencyKey });
    if (claim instanceof Job) return claim;
    try {
      if (principal.limits.max_kept !== null) await this.#kept.known(principal.name);
      await this.#keepFewer(principal.name);
      this.#refuseWhileClosing();
      return this.#admission.reserve(principal, stated, claim);
    } catch (cause) {
      claim.settle(null);
      throw cause;
    }
  }

  /**
   * Turns a submission into a job, which survives a power cut once this resolves.
   * @throws ServiceError `shuttingDown`; the system's error
   */
  async accept(slot: Slot, request: JobRequest, facts: SubmissionFacts): Promise<Job> {
    this.#refuseWhileClosing();
    const { files, notes, bytes, extracted } = facts;
    const { report, clock } = this.deps;
    const { directory } = slot;
    directory.log(`${acceptance(directory.id)}: ${commandOf(request.operation)} on ${request.app}`);
    for (const note of notes) directory.log(note);
    const record = newRecord(directory.id, request, new Date(clock.now()).toISOString(), bytes);
    const job = new Job(await this.#store.accept(directory, record, files), record, false, report, clock);
    slot.job = job;
    this.#jobs.set(job.id, job);
    this.#kept.add(job, bytes + extracted);
    this.deps.events.tell('accepted', { ...factsOf(job), bytes });
    // A stopping server starts nothing; the job stays on the disk for the next one.
    if (!this.#isClosing) this.#live(job);
    return job;
  }

  /**
   * Makes sure that one more job of an owner can be kept: the oldest whose result was fetched goes, else the oldest that failed.
   * @throws ServiceError `keptFull`
   */
  async #keepFewer(owner: Owner): Promise<void> {
    const { maxKeptJobs } = this.deps;
    const isKept = (job: Job) => job.request.owner === owner && job.isFinal && !this.#lives.has(job.id);
    const kept = [...this.#jobs.values()].filter(isKept);
    if (kept.length < maxKeptJobs) return;
    const { fetched, failed } = this.#retention.evictable(kept);
    const [oldest] = fetched.length > 0 ? fetched : failed;
    if (oldest) {
      await this.#retention.remove(oldest, fetched.length > 0 ? 'fetched' : undefined);
      return;
    }
    const detail = `${counted(maxKeptJobs, 'job')} of ${ownerInWords(owner)} are kept with results that nobody has fetched, the most there may be; 'remote-app rm JOB...' removes jobs`;
    throw new ServiceError('keptFull', detail);
  }

  /**
   * Bytes that all uploads of an owner may keep, beside its jobs; null for no limit. Waits until the use of its jobs is known.
   * @param length bytes of a new upload
   * @throws ServiceError `uploadTooLarge`, `keptFull` or `shuttingDown`
   */
  async roomForUpload(principal: Principal, length: number): Promise<number | null> {
    this.#refuseWhileClosing();
    if (principal.limits.max_kept !== null) await this.#kept.known(principal.name);
    return this.#owners.roomForUpload(principal, length);
  }

  /** The error of an upload for which the other uploads of its owner leave too little. */
  uploadsFull(principal: Principal, bytes: number): ServiceError {
    return this.#owners.uploadsFull(principal, bytes);
  }

  /** Refuses new jobs from now on, or accepts them again. Uploads in progress still become jobs. */
  drain(isDraining: boolean): void {
    if (isDraining === this.#admission.isDraining) return;
    this.#admission.isDraining = isDraining;
    this.deps.events.tell('drained', { isDraining, active: this.drainState.active });
  }

  get drainState(): DrainState {
    return { draining: this.#admission.isDraining, active: this.active + this.#admission.submitting };
  }

  #refuseWhileClosing(): void {
    if (this.#isClosing) {
      throw new ServiceError('shuttingDown', shuttingDownDetail);
    }
  }

  /**
   * The job with this id, as far as the sender may see it: somebody else's job is unknown to them. If its record cannot
   * be read, the owner is not known, and only an admin is told about it.
   * @throws ServiceError `unknownJob` or `expired`
   */
  get(id: string, principal: Principal): Job {
    const job = this.#jobs.get(id);
    if (job && mayReach(principal, job.request.owner)) return job;
    if (principal.role === 'admin') this.#unreadable.check(id);
    this.#expired.check(id, principal);
    throw new ServiceError('unknownJob', wireDetails.unknownJob);
  }

  /** The jobs for whose end the admin's program was to be run, and was not because the server stopped. */
  unnoticedEnds(): EndedJob[] {
    return this.list().flatMap((job) =>
      isFinal(job.state) && job.record.endNotice === 'due' ? [endOf(job, job.state)] : [],
    );
  }

  /**
   * Records that the admin's program is about to run for the end of a job.
   * @returns the end, with the version of the app if that has become known; null if the program must not run
   * @throws the system's error if it cannot be recorded
   */
  async beginEndNotice(end: EndedJob): Promise<EndedJob | null> {
    const job = this.#jobs.get(end.id);
    // Only what has just ended can be removed already: a job that ended earlier is loaded with its record.
    if (!job) return end;
    await job.versionKnown(versionWait);
    return (await job.beginEndNotice()) ? { ...end, version: job.record.appVersion } : null;
  }

  /** All jobs, with the disk space that each keeps. */
  async kept() {
    await this.#kept.allKnown();
    return this.list().map((job) => ({
      owner: job.request.owner,
      app: job.request.app,
      endedAt: job.isFinal ? job.commandEndedAt : null,
      bytes: this.#kept.ofJob(job),
    }));
  }

  /** Number of jobs that have not ended. */
  get active(): number {
    return this.#lives.size;
  }

  /** Newest first. If two were accepted at the same time, the one found last comes first. */
  list(): Job[] {
    // All times have the same form, so their texts are in their order.
    const later = ({ record: a }: Job, { record: b }: Job) => (a.createdAt < b.createdAt ? 1 : -1);
    return [...this.#jobs.values()]
      .reverse()
      .sort((a, b) => (a.record.createdAt === b.record.createdAt ? 0 : later(a, b)));
  }

  /**
   * Some of the jobs, newest first.
   * @param before only jobs that come after this one in the list; null for the first ones
   */
  page({ isWanted, limit, before }: JobPage): Job[] {
    const all = this.list();
    const found: Job[] = [];
    for (
      let at = before === null ? 0 : all.indexOf(before) + 1;
      at < all.length && found.length < limit;
      at += 1
    ) {
      const job = all[at];
      if (job && isWanted(job)) found.push(job);
    }
    return found;
  }

  /** Ends a job in any state. Resolves when none of its processes is left. Idempotent. */
  async kill(job: Job, by: KillCause = 'user'): Promise<KillReply> {
    const life = this.#lives.get(job.id);
    if (job.isFinal || !life) return { job_id: job.id, status: job.state, message: notRunning };
    life.lifecycle.kill(by);
    await Promise.race([life.end, delay(killTimeout, undefined, { ref: false })]);
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
      throw new ServiceError(
        'jobActive',
        `Job ${job.id} is ${job.state}; kill it first, or wait for its end`,
      );
    }
    // From here on, later steps must not rely on its directory.
    await this.#lives.get(job.id)?.end;
    const removed = this.#retention.remove(this.get(job.id, theAdmin));
    await Promise.race([removed, delay(removalTimeout, undefined, { ref: false })]);
  }

  /**
   * Makes room on the disk. Removes what the requester keeps, then what other owners keep, largest first: of each owner
   * first uploads that nobody needs now, then jobs whose results were fetched, then what failed jobs left. A result that nobody
   * has fetched stays as long as promised.
   * @param bytes that are missing
   * @returns false if so much cannot be freed; then nothing is removed
   */
  async makeRoom(bytes: number, requester: Owner): Promise<boolean> {
    await this.#kept.allKnown();
    const evictable = [...(this.deps.uploads?.evictable() ?? []), ...this.#evictableJobs()];
    const kept = new Map<Owner, number>();
    for (const each of evictable) kept.set(each.owner, (kept.get(each.owner) ?? 0) + each.bytes);
    if (evictable.length === 0 || evictable.reduce((sum, each) => sum + each.bytes, 0) < bytes) return false;
    kept.set(requester, Number.POSITIVE_INFINITY);
    evictable.sort((a, b) => (kept.get(b.owner) ?? 0) - (kept.get(a.owner) ?? 0));
    let freed = 0;
    for (const each of evictable) {
      await each.remove();
      freed += each.bytes;
      if (freed >= bytes) break;
    }
    return true;
  }

  /** Jobs that have ended and may be removed when the disk is short. */
  #evictableJobs(): Evictable[] {
    const { fetched, failed } = this.#retention.evictable(
      [...this.#jobs.values()].filter(({ id }) => !this.#lives.has(id)),
    );
    const about = (job: Job) => ({ owner: job.request.owner, bytes: this.#kept.ofJob(job) });
    return [
      ...fetched.map((job) => ({ ...about(job), remove: () => this.#retention.remove(job, 'fetched') })),
      ...failed.map((job) => ({
        ...about(job),
        remove: async () => {
          job.clear();
          await this.#discard(job);
          void this.#kept.measure(job);
        },
      })),
    ];
  }

  /** Keeps a result from expiring while it is sent. Returns a function that ends this. */
  holdResult(job: Job): () => void {
    return this.#retention.hold(job);
  }

  /** From here on, accepts no new jobs. Kills the active ones, or leaves them to the next server. */
  async close(onExit: OnExit): Promise<void> {
    this.#isClosing = true;
    this.#retention.close();
    this.#trash.close();
    if (onExit === 'kill') {
      const killed = [...this.#jobs.values()].map((job) => this.kill(job, 'stop'));
      await Promise.all([this.#unreadable.stop(), ...killed]);
    } else {
      await Promise.all([...this.#lives.values()].map(({ lifecycle }) => lifecycle.leave()));
    }
    await Promise.all([...this.#jobs.values()].map((job) => job.leave()));
  }

  /** Jobs come before uploads in what their owner may keep. */
  #trimUploads(owner: Owner): void {
    const max = this.deps.maxKeptOf(owner);
    if (max !== null) this.deps.uploads?.trim(owner, max - this.#kept.of(owner));
  }

  #live(job: Job): void {
    job.isEndNoticeWanted = this.deps.areEndsNoticed;
    followJob(job, this.deps.events);
    const lifecycle = new Lifecycle(job, {
      ...this.deps,
      packer: this.#packer,
      diskPerJob: this.#diskPerJob,
      discard: (job) => void this.#discard(job),
    });
    const end = lifecycle.run().finally(() => {
      this.#lives.delete(job.id);
      if (!this.#isClosing) this.#retention.schedule(job);
      this.#removeInput(job);
      void this.#kept.measure(job);
    });
    this.#lives.set(job.id, { lifecycle, end });
  }

  /** Removes what a job has written besides its log. */
  async #discard({ id, directory: { output, workspace } }: Job): Promise<void> {
    await Promise.all([output, workspace].map((part) => this.#trash.throwAway(part, false, id)));
  }

  /** Removes the input of a job that has ended: it is large, no longer needed, and may be a patient's scan. */
  #removeInput({ id, directory }: Job): void {
    void this.#trash.throwAway(directory.input, false, id);
  }

  #forget(job: Job, cause: GoneCause): void {
    this.#jobs.delete(job.id);
    this.#kept.forget(job);
    this.#admission.forget(job);
    this.deps.events.tell('removed', { ...factsOf(job), cause });
  }
}
