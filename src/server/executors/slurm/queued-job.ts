import { setTimeout as delay } from 'node:timers/promises';
import { faultWithoutPath, isDiskFull, isShortage } from '../../../files/index.js';
import { gpusOf, lacksRoom, type RunOrder, type Waiting } from '../index.js';
import {
  hasRun,
  isPrepared,
  lastOutput,
  notedId,
  noteId,
  type Placement,
  placementOf,
  prepare,
  refreshDirectory,
} from './batch-script.js';
import { cancelUnstarted, type SlurmContext, Wake } from './context.js';
import { isUndecided, phaseOf, type QueueRow, waitingWords } from './queue.js';
import { failedStart } from './run-follower.js';
import { type Resources, SlurmFailure } from './slurm.js';

/** Milliseconds between two attempts to submit a job. */
const retryAfter = 1000;

/**
 * Minutes by which Slurm's limit exceeds the job's own: the batch script may wait for two, and a job has a grace period.
 */
const extraMinutes = 3;

/**
 * The time limit to request from Slurm, in minutes. The service ends a job at its time limit; Slurm does so if the
 * service cannot, and starts short jobs earlier.
 * @param timeLimit milliseconds; null for none
 * @param maxMinutes the limit of the partition, beyond which Slurm would never start the job; null if it is not known
 */
export function minutesFor(timeLimit: number | null, maxMinutes: number | null): number | null {
  if (timeLimit === null) return null;
  const minutes = Math.ceil(timeLimit / 60_000) + extraMinutes;
  return Math.min(minutes, Math.floor(maxMinutes ?? Number.POSITIVE_INFINITY));
}

/**
 * Gets one job into Slurm's queue. If an earlier server may have submitted it, it is looked up first, so that it is never
 * submitted twice.
 */
class Submission {
  /** Slurm's number of the job, once it is in the queue. */
  id: number | null = null;
  /** Why the job was not accepted; null if it may still be. */
  refusal: string | null = null;
  /** What the job waits for before it is in the queue, as a phrase; null if nothing delays it. */
  obstacle: string | null = null;
  /** Resolves when it is in the queue, refused or given up. Never rejects. */
  readonly settled: Promise<void>;
  readonly #givenUp = new AbortController();
  #mayBeQueued: boolean;

  /**
   * @param changed called whenever one of the values has changed
   * @param isFirst whether to adopt a submission of an earlier server that has ended
   */
  constructor(
    private readonly order: Pick<RunOrder, 'directory' | 'devices' | 'timeLimit' | 'isAccepted'>,
    private readonly context: SlurmContext,
    private readonly changed: () => void,
    private readonly isFirst: boolean,
  ) {
    this.#mayBeQueued = order.isAccepted || isPrepared(order.directory.path);
    this.settled = this.#run().catch((cause) => {
      if (!this.#isGivenUp) this.#end({ refusal: `It could not be submitted: ${faultWithoutPath(cause)}` });
    });
  }

  /** Whether Slurm may have the job. */
  get mayBeQueued(): boolean {
    return this.#mayBeQueued;
  }

  /** Stops trying. `settled` still waits for a running call of sbatch. */
  giveUp(): void {
    this.#givenUp.abort();
  }

  get #isGivenUp(): boolean {
    return this.#givenUp.signal.aborted;
  }

  async #run(): Promise<void> {
    const release = await this.context.turns.take(this.#givenUp.signal);
    try {
      while (!this.#isGivenUp && this.id === null && this.refusal === null) {
        const obstacle = (await this.#find()) ?? (this.id === null ? await this.#submit() : null);
        if (obstacle === null) continue;
        this.#end({ obstacle });
        await delay(retryAfter, undefined, { ref: false, signal: this.#givenUp.signal });
      }
    } finally {
      release();
    }
  }

  #end(change: Partial<Pick<Submission, 'id' | 'refusal' | 'obstacle'>>): void {
    Object.assign(this, { obstacle: null }, change);
    this.changed();
  }

  /** Looks for it in the queue, if it may be there. @returns why that failed; null if it did not */
  async #find(): Promise<string | null> {
    if (!this.#mayBeQueued) return null;
    const { queue } = this.context;
    await queue.refresh();
    if (queue.problem !== null) return `Slurm, which does not answer (${queue.problem})`;
    const rows = queue.rowsOf(this.order.directory.path).filter((row) => phaseOf(row) !== 'ended');
    const ended = this.isFirst
      ? queue.view?.rows.find(({ id }) => id === notedId(this.order.directory.path))
      : undefined;
    const row = rows.find((each) => phaseOf(each) === 'active') ?? rows[0] ?? ended;
    if (row) this.#end({ id: row.id });
    return null;
  }

  get #resources(): Resources {
    const { devices, timeLimit } = this.order;
    const workers = devices.kind === 'cpu' ? devices.workers : 1;
    // A job that asks for more cores than any node has would never run; it gets all cores of one.
    const max = this.context.cluster.nodes === null ? workers : this.context.cluster.largest.cpus;
    const minutes = minutesFor(timeLimit, this.context.cluster.maxMinutes);
    return { gpus: gpusOf(devices), cpus: Math.min(workers, max), minutes };
  }

  /** @returns what it waits for; null if it is in the queue or refused */
  async #submit(): Promise<string | null> {
    const { directory } = this.order;
    if (this.#isGivenUp) return null;
    try {
      if (lacksRoom(directory.path)) return 'room on the disk';
      prepare(directory.path);
      // True even if this process or sbatch is killed now.
      this.#mayBeQueued = true;
      const id = await this.context.slurm.submit(directory, this.#resources);
      this.#end({ id });
      noteId(directory.path, id);
      return null;
    } catch (cause) {
      // Only its number could not be recorded: a later server finds it in the queue by its directory.
      if (this.id !== null) return null;
      if (isDiskFull(cause) || isShortage(cause)) return 'room on the machine of the server';
      if (!(cause instanceof SlurmFailure)) throw cause;
      if (cause.isQueueFull) return `Slurm, which has as many jobs as a limit allows (${cause.limit})`;
      if (cause.isTemporary) return `Slurm, which does not answer (${cause.message})`;
      this.#end({ refusal: `Slurm refused it: ${cause.message}` });
      return null;
    }
  }
}

/** Milliseconds before a job counts as waiting. Most start sooner. */
const briefWait = 3000;
/** How often a job is submitted if its submissions end before it starts: nodes may fail one after another. */
const maxSubmissions = 10;
/**
 * States in Slurm after which a job is not submitted again: it would end the same way, or somebody ended it on purpose.
 */
const finalStates = ['FAILED', 'CANCELLED', 'TIMEOUT', 'OUT_OF_MEMORY'];

/** The sort key of a waiting job: smaller numbers go first, the first number before the second. */
export type Rank = readonly [number, number];

/** A job until Slurm has placed it. It is submitted, waits, and is submitted again if its node fails before the start. */
export class QueuedJob {
  readonly #wake = new Wake();
  readonly #createdAt = performance.now();
  readonly #returnGpus: () => void;
  #submission: Submission | null = null;
  #submissions = 0;
  /** When it was last submitted or found. Earlier answers of squeue are ignored. */
  #since = this.#createdAt;
  #isWaiting = false;
  #isStopped = false;

  /**
   * @param arrival its number in order of arrival
   * @param position its position among the waiting jobs
   */
  constructor(
    private readonly order: RunOrder,
    private readonly context: SlurmContext,
    private readonly arrival: number,
    private readonly position: () => number,
  ) {
    const { owner, devices, grant } = order;
    const { quota } = context;
    this.#returnGpus = hasRun(this.#path)
      ? quota.hold(owner, grant?.gpus.length ?? gpusOf(devices))
      : quota.take(owner, gpusOf(devices), () => this.submit());
  }

  get #path(): string {
    return this.order.directory.path;
  }

  /** Its id in Slurm, once that is known. */
  get id(): number | null {
    return this.#submission?.id ?? null;
  }

  /** Its sort key among the waiting jobs; null if it does not wait. */
  get rank(): Rank | null {
    if (!this.#isWaiting) return null;
    const row = this.#row;
    // Jobs that are not in Slurm's queue yet come after those that are, in order of arrival.
    return row ? [-row.priority, row.id] : [1, this.arrival];
  }

  get #row(): QueueRow | undefined {
    return this.context.queue.view?.rows.find(({ id }) => id === this.id);
  }

  /** Makes the job check what has changed. */
  wake(): void {
    this.#wake.call();
  }

  /** Makes `untilPlaced` return. */
  stop(): void {
    this.#isStopped = true;
    this.wake();
  }

  /** Submits it to Slurm, for the first time or again. */
  submit(): void {
    this.#submissions += 1;
    this.#since = performance.now();
    const changed = () => {
      this.#since = performance.now();
      this.wake();
    };
    this.#submission = new Submission(this.order, this.context, changed, this.#submissions === 1);
  }

  /**
   * Follows it through Slurm's queue.
   * @returns where it was placed; null if it was stopped or already runs; a sentence if it cannot run
   */
  async *untilPlaced(): AsyncGenerator<Waiting, Placement | string | null> {
    let last: Waiting | undefined;
    this.#isWaiting = false;
    while (!this.#isStopped && !hasRun(this.#path)) {
      const placement = this.id === null ? null : placementOf(this.#path, this.id);
      // Not if its batch script gave up waiting for `go`.
      if (placement && !this.isGone()) return placement;
      const refusal = this.#submission?.refusal ?? this.#failedStart();
      if (refusal !== null) return refusal;
      const reason = this.#waitsFor();
      this.#isWaiting = reason !== null;
      const waiting: Waiting | undefined =
        reason === null ? undefined : { kind: 'waiting', for: reason, position: this.position() };
      if (waiting && (last?.for !== waiting.for || last.position !== waiting.position)) {
        last = waiting;
        yield waiting;
      } else {
        await this.#wake.next();
      }
    }
    return null;
  }

  /** Whether Slurm has ended it. */
  isGone(): boolean {
    const row = this.#row;
    return row !== undefined && phaseOf(row) === 'ended';
  }

  /** Returns its GPUs. If it has not started, it is first removed from Slurm's queue. */
  async leave(hasStarted: boolean): Promise<void> {
    this.#isWaiting = false;
    if (!hasStarted) await this.#remove();
    this.#returnGpus();
  }

  async #remove(): Promise<void> {
    if (this.#submission === null) return;
    this.#submission.giveUp();
    await this.#submission.settled;
    if (this.id === null && !this.#submission.mayBeQueued) return;
    await cancelUnstarted(this.#path, this.context);
  }

  /** What it waits for, as a phrase; null if it has waited only briefly. */
  #waitsFor(): string | null {
    const { queue, quota } = this.context;
    if (this.#submission === null) return quota.describe(this.order.owner);
    const { obstacle } = this.#submission;
    if (obstacle !== null) return obstacle;
    const isBrief = performance.now() - this.#createdAt < briefWait;
    const row = this.#row;
    if (row && phaseOf(row) === 'waiting' && !(isBrief && isUndecided(row.reason))) {
      return waitingWords(row.reason);
    }
    if (isBrief) return null;
    if (row) return `its node to be ready (Slurm: ${row.state})`;
    if (queue.problem !== null) return `Slurm, which does not answer (${queue.problem})`;
    return this.id === null ? 'its turn to be submitted to Slurm' : 'Slurm to start it';
  }

  /**
   * Submits it again if Slurm has ended it before the start for a reason that may not recur.
   * @returns a sentence if it cannot run
   */
  #failedStart(): string | null {
    const { id } = this;
    const { queue } = this.context;
    if (id === null || queue.view === null || queue.view.at < this.#since) return null;
    const row = this.#row;
    if (row && phaseOf(row) !== 'ended') return null;
    // An NFS client may learn only now that it has run.
    refreshDirectory(this.#path);
    if (hasRun(this.#path)) return null;
    const isStillQueued = queue.rowsOf(this.#path).some((each) => phaseOf(each) !== 'ended');
    const mayRecover = row === undefined || !finalStates.includes(row.state);
    if (isStillQueued || (mayRecover && this.#submissions < maxSubmissions)) {
      this.submit();
      return null;
    }
    return failedStart({ id, state: row?.state ?? null, node: row?.node ?? '' }, lastOutput(this.#path));
  }
}
