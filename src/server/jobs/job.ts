import { EventEmitter } from 'node:events';
import { type FinalState, isFinal, type JobState, type JobView } from '../../contract/job.js';
import type { JobDirectory } from './directory.js';
import type { JobRecord, JobRequest } from './record.js';
import type { Grant, Ticket } from './scheduler.js';

const now = () => new Date().toISOString();

/** Which states each state may lead to; a final state leads nowhere. */
const transitions: Readonly<Record<JobState, readonly JobState[]>> = {
  queued: ['waiting', 'running', 'error', 'killed'],
  waiting: ['running', 'error', 'killed'],
  running: ['done', 'error', 'killed'],
  done: [],
  error: [],
  killed: [],
};

/**
 * One job: a state machine over its record. Each transition is on disk before anyone hears of it.
 * Emits `change` at every transition and `log` when the service wrote a line of its own.
 */
export class Job extends EventEmitter<{ change: []; log: [] }> {
  #record: JobRecord;
  #ticket: Ticket | null = null;

  private constructor(
    readonly directory: JobDirectory,
    record: JobRecord,
    private readonly isRestored: boolean,
  ) {
    super();
    // Every log stream listens.
    this.setMaxListeners(0);
    this.#record = record;
  }

  /** A new job, queued. */
  static create(directory: JobDirectory, request: JobRequest): Job {
    const record: JobRecord = {
      id: directory.id,
      request,
      state: 'queued',
      error: null,
      createdAt: now(),
      startedAt: null,
      finishedAt: null,
      expiresAt: null,
      gpus: [],
      cpuSlots: 0,
      killRequested: false,
    };
    directory.save(record);
    return new Job(directory, record, false);
  }

  /** The job that an earlier server left in this directory. */
  static restore(directory: JobDirectory, record: JobRecord): Job {
    return new Job(directory, record, true);
  }

  get id(): string {
    return this.#record.id;
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

  get grant(): Grant {
    return { gpus: this.#record.gpus, cpuSlots: this.#record.cpuSlots };
  }

  /** It waits, with this place in the queue. */
  wait(ticket: Ticket): void {
    this.#ticket = ticket;
    if (this.state === 'queued') this.#become('waiting', {});
  }

  /** It was given devices and is about to start. */
  run(grant: Grant): void {
    this.#ticket = null;
    this.#become('running', { gpus: grant.gpus, cpuSlots: grant.cpuSlots, startedAt: now() });
  }

  /** Notes that somebody asked for its end, so that a later server knows as well. */
  requestKill(): void {
    this.#ticket?.cancel();
    // In memory first: on a disk that is full the job ends all the same, which may be what gives room.
    this.#record = { ...this.#record, killRequested: true };
    this.directory.save(this.#record);
  }

  /** It has ended. The first end counts; a later one is ignored. */
  finish(state: FinalState, error: string | null, expiresAt: Date): void {
    if (this.isFinal) return;
    this.#ticket = null;
    this.#become(state, { error, finishedAt: now(), expiresAt: expiresAt.toISOString() });
  }

  /** Moves the end of its grace period. */
  expireAt(expiresAt: Date): void {
    this.#become(this.state, { expiresAt: expiresAt.toISOString() });
  }

  /** Writes a line of the service's own into the log, unless an earlier server got to writing it. */
  log(line: string): void {
    if (this.isRestored && this.directory.hasLogged(line)) return;
    this.directory.log(line);
    this.emit('log');
  }

  /** What the wire shows of it (interface.md, Jobs). */
  view(): JobView {
    const record = this.#record;
    return {
      job_id: record.id,
      status: record.state,
      error: record.error,
      app: record.request.app,
      operation: record.request.operation,
      created_at: record.createdAt,
      started_at: record.startedAt,
      finished_at: record.finishedAt,
      expires_at: record.expiresAt,
      assigned_gpus: record.gpus,
      queue_position: this.#ticket?.position() ?? null,
      waiting_for: record.state === 'waiting' ? (this.#ticket?.waitingFor ?? null) : null,
    };
  }

  #become(state: JobState, change: Partial<JobRecord>): void {
    if (state !== this.state && !transitions[this.state].includes(state)) {
      throw new Error(`Job ${this.id} cannot go from ${this.state} to ${state}`);
    }
    const record = { ...this.#record, ...change, state };
    this.directory.save(record);
    this.#record = record;
    this.emit('change');
  }
}
