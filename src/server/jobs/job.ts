import { EventEmitter } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type FinalState,
  isFinal,
  type JobStart,
  type JobState,
  type JobView,
  type KillCause,
} from '../../contract/index.js';
import { bootTimeIn, type Clock, pause } from '../../files/index.js';
import type { EndedJob, JobFacts, ServerEvents } from '../events.js';
import type { Ended, Grant, Waiting } from '../executors/index.js';
import type { Report } from '../report.js';
import { type JobDirectory, loggedLine } from './job-directory.js';
import { type JobRecord, type JobRequest, notPlaced } from './job-record.js';

/** Milliseconds after which a job's end is shown even if it is not saved yet, because a kill must be answered. */
const saveTimeout = 10_000;
/** Milliseconds between two attempts to save how a job ended. */
const retryInterval = 1000;

/** Seconds from one time to another (ISO 8601); 0 if somebody has set the clock back in between. */
const secondsBetween = (start: string, end: string): number =>
  Math.max(0, (Date.parse(end) - Date.parse(start)) / 1000);

/**
 * When a command ended. The job could have written the reported time itself, so the time is clamped to between its start and now.
 */
function endBetween(startedAt: string, reported: string, now: number): string {
  const time = Math.min(Math.max(Date.parse(reported), Date.parse(startedAt)), now);
  return new Date(time).toISOString();
}

/** The log reports a job that uses more than this factor times what its app declares: declared needs are never exact. */
const tolerance = 1.1;

/** The states that each state may change to. A final state never changes. */
const transitions: Readonly<Record<JobState, readonly JobState[]>> = {
  queued: ['waiting', 'running', 'error', 'killed'],
  waiting: ['running', 'error', 'killed'],
  // A job waits again if a fault of the machine kept its program from starting, or before its second run.
  running: ['waiting', 'done', 'error', 'killed'],
  done: [],
  error: [],
  killed: [],
};

/** Milliseconds by which the two clocks may differ although nobody has set either. */
const clockTolerance = 2000;

/** A point in time on the machine's monotonic clock, which does not change when the wall clock is set. */
export class Deadline {
  readonly #monotonic: number;
  readonly #wall: number;

  /** @param length milliseconds */
  constructor(
    private readonly length: number,
    private readonly clock: Clock,
  ) {
    this.#monotonic = clock.monotonic();
    this.#wall = clock.now();
  }

  /** Milliseconds until then; negative once it has passed. */
  get left(): number {
    return this.length - (this.clock.monotonic() - this.#monotonic);
  }

  /** The same as a date, according to the wall clock at the moment. */
  get date(): Date {
    const moved = this.clock.now() - this.#wall - (this.clock.monotonic() - this.#monotonic);
    return new Date(this.#wall + this.length + (Math.abs(moved) > clockTolerance ? moved : 0));
  }
}

/** What all jobs of a server share. */
export interface JobContext {
  /** Whether a program of the admin is run for each end: `serve --on-end`. */
  readonly areEndsNoticed: boolean;
  /** Where transitions are announced. */
  readonly events: ServerEvents;
  readonly clock: Clock;
  readonly report: Report;
}

/** What is recorded about an end besides its error. */
export type EndFacts = Partial<Pick<JobRecord, 'isRefused' | 'kind' | 'leftFiles' | 'resultBytes'>>;

/**
 * One job: a state machine over its record. Each transition is saved before it is shown and announced. If the disk fails, an end
 * is shown anyway, and saved when that is possible. Emits `change` at every transition and `log` when the service has written a
 * line.
 */
export class Job extends EventEmitter<{ change: []; log: [] }> {
  #record: JobRecord;
  #waiting: Waiting | null = null;
  /** The latest transition. Transitions run one after the other. */
  #turn: Promise<unknown> = Promise.resolve();
  /** What changes with its end, from the moment it is decided. After that, no other transition is shown or started. */
  #lastStep: Partial<JobRecord> | null = null;
  /** When the command started, on the monotonic clock; null if it did not start under this server. */
  #begunAt: number | null = null;
  /** When its command ended (ISO 8601); null before that, and for a job that had ended under an earlier server. */
  #commandEndedAt: string | null = null;
  #hasLogFailed = false;
  #hasLoggedPlace = false;
  #unloggedPlace: string | null = null;
  /** Resolves when the version of its app is known, or will not become known. */
  #versionSettled: Promise<unknown> = Promise.resolve();
  /** False from the end of its command until it is known whether its app still has the version that the command began with. */
  #isVersionCompared = true;
  /** When it is removed, once that is known. */
  expiry: Deadline | null = null;
  /**
   * Bytes that it keeps on the disk, once they are counted: while it is active, its submission with the content of its archives.
   * What it writes counts once it has ended.
   */
  keptBytes: number | null = null;
  /** Whether its files were removed early because it failed and the disk was short of space. */
  isCleared = false;
  /** Number of bytes that clients were sent from the start of its archive, in one download or several consecutive ones. */
  #sent = 0;
  #isLeft = false;

  /** @param isRestored whether the job is from an earlier server, whose log lines must not be repeated */
  constructor(
    readonly directory: JobDirectory,
    record: JobRecord,
    readonly isRestored: boolean,
    private readonly context: JobContext,
  ) {
    super();
    // There is a listener for each log stream.
    this.setMaxListeners(0);
    this.#record = record;
    if (this.isFinal) this.#lastStep = {};
  }

  get id(): string {
    return this.#record.id;
  }

  /** What identifies it in events. */
  get facts(): JobFacts {
    const { app, operation, owner } = this.request;
    return { id: this.id, app, operation, owner };
  }

  get request(): JobRequest {
    return this.#record.request;
  }

  get record(): JobRecord {
    return this.#record;
  }

  get state(): JobState {
    return this.#record.state;
  }

  get isFinal(): boolean {
    return isFinal(this.#record.state);
  }

  /** Whether somebody asked to end it. */
  get killRequested(): boolean {
    return this.#record.killRequested;
  }

  /** Who first asked to end it; null if nobody has. */
  get killCause(): KillCause | null {
    return this.killRequested ? this.#record.killCause : null;
  }

  /** Its devices; null until it runs. */
  get grant(): Grant | null {
    const { state, gpus, gpuUuids, cpuSlots } = this.#record;
    return state === 'running' ? { gpus, gpuUuids, cpuSlots } : null;
  }

  /** Records that it waits, or that its position in the queue has changed. */
  async wait(waiting: Waiting): Promise<void> {
    this.#waiting = waiting;
    if (this.state === 'waiting') return;
    this.#begunAt = null;
    await this.#become('waiting', notPlaced);
  }

  /** When its command ended (ISO 8601); if it never ran, when the job ended; now if neither has. */
  get commandEndedAt(): string {
    return this.#commandEndedAt ?? this.#record.finishedAt ?? this.#now;
  }

  /** The current time by the wall clock (ISO 8601). */
  get #now(): string {
    return new Date(this.context.clock.now()).toISOString();
  }

  /** Whether it holds devices: it is running, and its command has not ended. */
  get hasDevices(): boolean {
    return this.state === 'running' && this.#record.ranFor === null;
  }

  /** Whether it holds this GPU, which may have had another id when it was given. */
  holds({ id, uuid }: { readonly id: number; readonly uuid?: string }): boolean {
    const { gpus, gpuUuids } = this.#record;
    if (!this.hasDevices) return false;
    return uuid && gpuUuids.length > 0 ? gpuUuids.includes(uuid) : gpus.includes(id);
  }

  /**
   * Its command has ended and its devices are free. What comes after that, such as packing, does not count as run time, which
   * is measured on the monotonic clock unless the command began under another server.
   * @param ended what is known of its end, which may be long ago if there was no server
   */
  noteCommandEnd(ended: Partial<Ended>): void {
    const { startedAt } = this.#record;
    if (this.#commandEndedAt !== null || startedAt === null) return;
    const { peakMemory = null, peakGpuMemory = null, cpuSeconds = null, exitCode = null } = ended;
    const end = endBetween(startedAt, ended.endedAt ?? this.#now, this.context.clock.now());
    this.#commandEndedAt = end;
    const ranFor =
      this.#begunAt === null
        ? secondsBetween(startedAt, end)
        : (this.context.clock.monotonic() - this.#begunAt) / 1000;
    this.#note({ peakMemory, peakGpuMemory, cpuSeconds, exitCode, ranFor });
  }

  /** The resources of which it used over a tenth more than its app declares. */
  get overuse(): EndedJob['overuse'] {
    const { peakMemory, peakGpuMemory } = this.#record;
    const { memory, gpuMemory } = this.request.needs;
    const over = (resource: 'gpu_memory' | 'memory', used: number | null, declared: number | null) =>
      used !== null && declared !== null && used > declared * tolerance ? [{ resource, used, declared }] : [];
    return [...over('gpu_memory', peakGpuMemory, gpuMemory), ...over('memory', peakMemory, memory)];
  }

  /**
   * Records that it was given devices and is about to start.
   * @param start whether its app is loaded already; null for an app that does not stay loaded
   */
  async run(grant: Grant, start: JobStart | null): Promise<void> {
    this.#waiting = null;
    const { timeLimit } = this.request;
    const limitAtBootTime = timeLimit === null ? null : bootTimeIn(this.context.clock, timeLimit);
    this.#begunAt = this.context.clock.monotonic();
    await this.#become('running', { ...grant, start, startedAt: this.#now, limitAtBootTime });
  }

  /** Prepares it to run once more, with its devices to itself: what is known of its first run no longer counts. */
  async retryAlone(): Promise<void> {
    this.#begunAt = null;
    this.#commandEndedAt = null;
    await this.#become('waiting', { ...notPlaced, isAlone: true, ranFor: null, exitCode: null });
  }

  /** Records that its app, which should have been loaded already, was gone. Saved with its end. */
  notWarm(): void {
    if (this.#record.start === 'warm') this.#note({ start: 'cold' });
  }

  /** Records the version of its app with which its command begins. It may become known only after the job's end. */
  noteVersion(known: Promise<string | null>): void {
    this.#versionSettled = known.then((version) => this.#setVersion(version));
  }

  /**
   * Compares the version of its app after its command has ended, if it is known, with the one at the start. If they differ, it is
   * unclear which version ran, and none is recorded.
   */
  noteVersionAtEnd(known: Promise<string | null>): void {
    this.#isVersionCompared = false;
    this.#versionSettled = Promise.all([known, this.#versionSettled]).then(([version]) => {
      this.#isVersionCompared = true;
      if (version !== null && version !== this.#record.appVersion) this.#setVersion(null);
    });
  }

  #setVersion(appVersion: string | null): void {
    if (appVersion === this.#record.appVersion) return;
    this.#note({ appVersion });
    // If this cannot be saved, the next server does not know the version.
    this.#saveAgain().catch(() => {});
  }

  /** The version of the app that it ran; null until that is known. */
  get version(): string | null {
    return this.#isVersionCompared ? this.#record.appVersion : null;
  }

  /** Waits until the version of its app is known, or will not become known, but at most `timeout` milliseconds. */
  async versionKnown(timeout: number): Promise<void> {
    await Promise.race([this.#versionSettled, delay(timeout, undefined, { ref: false })]);
  }

  /** Saves that somebody asked to end it, so that a later server knows it too. The first cause is kept. */
  async requestKill(cause: KillCause): Promise<void> {
    this.#waiting = null;
    // In memory first, so that the job ends even if the disk is full.
    if (!this.killRequested) this.#note({ killRequested: true, killCause: cause });
    await this.#become(null, {});
  }

  /**
   * Ends the job. Only the first end counts. Never rejects.
   * @param facts what else is recorded about the end
   */
  async finish(state: FinalState, error: string | null, facts: EndFacts = {}): Promise<void> {
    this.#waiting = null;
    if (this.#lastStep) return;
    this.#keepPlace();
    this.noteCommandEnd({});
    const { keep } = this.request;
    const finishedAt = this.#now;
    const expiresAt = keep === null ? null : new Date(Date.parse(finishedAt) + keep * 1000).toISOString();
    const expiresAtBootTime = keep === null ? null : bootTimeIn(this.context.clock, keep);
    const end = {
      finishedAt,
      endNotice: this.context.areEndsNoticed ? ('due' as const) : null,
      expiresAt,
      expiresAtBootTime,
    };
    this.#lastStep = this.#step(state, { error, ...facts, ...end });
    const saved = this.#saveLast().then(
      () => true,
      (cause) => {
        this.context.report(`Job ${this.id} could not be saved as ${state}; it is tried again`, cause);
        return false;
      },
    );
    // An unresponsive disk must not delay the end.
    const isSaved = await Promise.race([saved, pause(this.context.clock, saveTimeout).then(() => false)]);
    this.#show(this.#lastStep);
    if (!isSaved) void saved.then((isLate) => (isLate ? undefined : this.#saveLater()));
  }

  /** Leaves its record to the next server. Resolves when this server no longer writes it. */
  async leave(): Promise<void> {
    this.#isLeft = true;
    await this.#turn;
  }

  /** Writes a line of the service to the log, unless an earlier server has written it. Never throws. */
  log(line: string): void {
    this.#keepPlace();
    this.#append(line, false);
  }

  /**
   * Reports its position in the queue. The log keeps only the first and the last, since there may be hundreds; streams show all
   * of them. Never throws.
   */
  logPlace(line: string): void {
    if (this.#hasLoggedPlace) {
      this.#unloggedPlace = line;
      this.emit('log');
    } else this.#append(line, true);
    this.#hasLoggedPlace = true;
  }

  /** The latest line about its position in the queue, if the log does not have it yet, formatted as in the log. */
  get unloggedPlace(): Buffer | null {
    return this.#unloggedPlace === null ? null : Buffer.from(`${loggedLine(this.#unloggedPlace, true)}\n`);
  }

  /** Writes the last reported position to the log. */
  #keepPlace(): void {
    const line = this.#unloggedPlace;
    this.#unloggedPlace = null;
    if (line !== null) this.#append(line, true);
  }

  /** @param isRedraw whether the next line replaces this one where lines can be redrawn */
  #append(line: string, isRedraw: boolean): void {
    try {
      if (this.isRestored && this.directory.hasLogged(line, isRedraw)) return;
      this.directory.log(line, isRedraw);
      this.emit('log');
    } catch (cause) {
      if (!this.#hasLogFailed)
        this.context.report(`The log of job ${this.id} could not be written to`, cause);
      this.#hasLogFailed = true;
    }
  }

  /**
   * Records that a client was sent bytes of the archive. Once all of them were sent, the result counts as fetched.
   * @param start position of these bytes in the archive
   * @param isWhole whether the response was sent completely
   */
  noteSent(start: number, bytes: number, size: number, isWhole: boolean): void {
    if (start <= this.#sent) this.#sent = Math.max(this.#sent, start + bytes);
    if (isWhole && this.#sent >= size) this.noteFetched();
  }

  /** Records that its result has been fetched, so that it may be removed early if the disk is short of space. */
  noteFetched(): void {
    if (this.#record.fetchedAt !== null) return;
    this.#note({ fetchedAt: this.#now });
    // If this cannot be saved, the next server keeps the job for as long as promised.
    this.#saveAgain().catch(() => {});
  }

  /** Records that its files are removed early, because it failed and the disk is short of space. */
  clear(): void {
    this.isCleared = true;
    this.#note({ leftFiles: 0 });
    this.log('The files of this job were removed: it has no result, and the disk was almost full');
    // If this cannot be saved, the next server finds nothing there.
    this.#saveAgain().catch(() => {});
  }

  /**
   * Records that the admin's program is about to run for its end, so that it never runs twice.
   * @returns false if that is recorded already, or it need not run
   * @throws the system's error; then nothing is recorded
   */
  beginEndNotice(): Promise<boolean> {
    return this.#inTurn(async () => {
      if (this.#record.endNotice !== 'due') return false;
      const begun = { endNotice: 'begun' as const };
      // If its directory was removed, a later server does not find the job.
      if (this.directory.exists()) await this.directory.save({ ...this.#record, ...begun });
      this.#note(begun);
      return true;
    });
  }

  /** The job as clients see it (docs/http.md, Jobs). */
  view(): JobView {
    const record = this.#record;
    const waiting = record.state === 'waiting' ? this.#waiting : null;
    return {
      job_id: record.id,
      status: record.state,
      error: record.error,
      kind: record.kind,
      app: record.request.app,
      operation: record.request.operation,
      tag: record.request.tag,
      deidentified: record.request.deidentified,
      inputs: record.request.inputs,
      owner: record.request.owner,
      created_at: record.createdAt,
      started_at: record.startedAt,
      finished_at: record.finishedAt,
      run_seconds: record.ranFor,
      peak_memory: record.peakMemory,
      peak_gpu_memory: record.peakGpuMemory,
      cpu_seconds: record.cpuSeconds,
      expires_at: this.expiry?.date.toISOString() ?? record.expiresAt,
      keep: record.request.keep,
      time_limit: record.request.timeLimit,
      left_files: record.leftFiles,
      bytes_kept: this.keptBytes,
      assigned_gpus: record.gpus,
      start: record.start,
      version: this.version,
      queue_position: waiting?.position ?? null,
      waiting_for: waiting?.for ?? null,
    };
  }

  /** What a transition changes; null keeps the state. */
  #step(state: JobState | null, change: Partial<JobRecord>): Partial<JobRecord> {
    if (state === null) return change;
    if (transitions[this.state].includes(state)) return { ...change, state };
    throw new Error(`Job ${this.id} cannot go from ${this.state} to ${state}`);
  }

  /** Changes what is known of it between two transitions. The next save includes it. */
  #note(change: Partial<JobRecord>): void {
    this.#record = { ...this.#record, ...change };
  }

  #become(state: JobState | null, change: Partial<JobRecord>): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#lastStep) return;
      const step = this.#step(state, change);
      // After a power cut, which ends all programs, a job starts again as it was accepted. Only the request to kill it must
      // survive.
      await this.directory.save({ ...this.#record, ...step }, this.killRequested);
      if (!this.#lastStep) this.#show(step);
    });
  }

  #show(step: Partial<JobRecord>): void {
    const before = this.state;
    this.#note(step);
    if (this.state !== before) this.#announce(this.#record);
    this.emit('change');
  }

  #announce({ createdAt, startedAt, gpus }: JobRecord): void {
    const { facts } = this;
    const { events } = this.context;
    if (this.state === 'waiting') {
      const { waiting_for, queue_position } = this.view();
      // Between two runs of a job, it is not known yet what the job waits for.
      if (waiting_for !== null)
        events.announce('waiting', { ...facts, for: waiting_for, position: queue_position });
    } else if (this.state === 'running') {
      events.announce('started', {
        ...facts,
        gpus,
        waited: secondsBetween(createdAt, startedAt ?? createdAt),
      });
    } else {
      const end = this.end();
      if (end) events.announce('ended', end);
    }
  }

  /** How it ended, for events; null if it has not. */
  end(): EndedJob | null {
    const { state, error, isRefused, exitCode, gpus, gpuUuids, cpuSlots, createdAt, startedAt } =
      this.#record;
    if (!isFinal(state)) return null;
    const { peakMemory, peakGpuMemory, cpuSeconds } = this.#record;
    const endedAt = this.commandEndedAt;
    return {
      ...this.facts,
      ...{ state, error, isRefused, exitCode, gpus, gpuUuids, cpuSlots, endedAt },
      seconds: this.#record.ranFor,
      ...{ peakMemory, peakGpuMemory, cpuSeconds },
      overuse: this.overuse,
      version: this.version,
      acceptedAt: createdAt,
      queued: secondsBetween(createdAt, startedAt ?? endedAt),
      received: this.#record.uploadBytes,
      bytes: this.#record.resultBytes,
    };
  }

  #inTurn<T>(step: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(step);
    this.#turn = done.catch(() => {});
    return done;
  }

  /** The record with its latest changes: the final one from the moment it is decided. */
  get #latest(): JobRecord {
    return this.isFinal ? this.#record : { ...this.#record, ...this.#lastStep };
  }

  /** Saves the final record after any save in progress, so that it is the one that remains. */
  #saveLast(): Promise<void> {
    return this.#inTurn(() => this.directory.saveLast(this.#latest));
  }

  /**
   * Saves a fact that became known between two transitions, or after the last one. A record that replaces the final one must
   * survive a power cut as well.
   */
  #saveAgain(): Promise<void> {
    return this.#inTurn(async () => {
      if (!this.#isLeft) await this.directory.save(this.#latest, this.#lastStep !== null);
    });
  }

  /** Retries until the disk accepts the record, or the directory is gone. */
  async #saveLater(): Promise<void> {
    for (;;) {
      await pause(this.context.clock, retryInterval);
      try {
        if (!this.directory.exists()) return;
        await this.#saveLast();
        return;
      } catch {
        // The failure has been reported already.
      }
    }
  }
}
