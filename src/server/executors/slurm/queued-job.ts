import { gpusOf, type RunOrder, type Waiting } from '../executor.js';
import type { SlurmContext } from './context.js';
import { failedStart } from './endings.js';
import { lastWords, type Placement, placementOf, refreshDirectory } from './handshake.js';
import { hasRun } from './has-run.js';
import { type QueueRow, stageOf } from './queue-rows.js';
import { isUndecided, waitingWords } from './reasons.js';
import { Submission } from './submission.js';
import { Wake } from './wake.js';
import { withdraw } from './withdraw.js';

/** Milliseconds that Slurm may take for a start before the job is said to wait: most start at once. */
const briefWait = 3000;
/** How often a job is submitted that Slurm gave back before it was started: nodes may fail one after the other. */
const mostSubmissions = 10;
/** Ends in Slurm that another submission would have as well, or that somebody wanted. */
const lasting = ['FAILED', 'CANCELLED', 'TIMEOUT', 'OUT_OF_MEMORY'];

/** A place in the order in which jobs wait: smaller numbers go first, compared one after the other. */
export type Rank = readonly [number, number];

/** A job until Slurm has placed it: submitted, waiting, and submitted again where a node was lost before the start. */
export class QueuedJob {
  readonly #wake = new Wake();
  readonly #begin = performance.now();
  readonly #leaveGate: () => void;
  #submission: Submission | null = null;
  #submissions = 0;
  /** When it was last submitted or found: answers of squeue count from here on. */
  #since = this.#begin;
  #isWaiting = false;
  #isStopped = false;

  /**
   * @param arrival its number in the order in which jobs came
   * @param position its place among the jobs that wait
   */
  constructor(
    private readonly order: RunOrder,
    private readonly context: SlurmContext,
    private readonly arrival: number,
    private readonly position: () => number,
  ) {
    const { owner, devices, grant } = order;
    const { gate } = context;
    this.#leaveGate = hasRun(this.#path)
      ? gate.hold(owner, grant?.gpus.length ?? gpusOf(devices))
      : gate.enter(owner, gpusOf(devices), () => this.submit());
  }

  get #path(): string {
    return this.order.directory.path;
  }

  /** Slurm's number of it, once that is known. */
  get id(): number | null {
    return this.#submission?.id ?? null;
  }

  /** Its place in the order in which jobs wait; null if it does not. */
  get rank(): Rank | null {
    if (!this.#isWaiting) return null;
    const row = this.#row;
    // What is not in Slurm's queue yet comes after what is, in the order in which it came.
    return row ? [-row.priority, row.id] : [1, this.arrival];
  }

  get #row(): QueueRow | undefined {
    return this.context.queue.view?.rows.find(({ id }) => id === this.id);
  }

  /** Something may have changed. */
  wake(): void {
    this.#wake.call();
  }

  /** `untilPlaced` ends. */
  stop(): void {
    this.#isStopped = true;
    this.wake();
  }

  /** Brings it into Slurm's queue, again if it is there no longer. */
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
   * @returns where it was placed; null if it was stopped, or runs already; a sentence if it cannot run
   */
  async *untilPlaced(): AsyncGenerator<Waiting, Placement | string | null> {
    let told: Waiting | undefined;
    this.#isWaiting = false;
    while (!this.#isStopped && !hasRun(this.#path)) {
      const placement = this.id === null ? null : placementOf(this.#path, this.id);
      // A batch script that was not let go on in time gives its node back.
      if (placement && !this.isGone()) return placement;
      const refusal = this.#submission?.refusal ?? this.#failedStart();
      if (refusal !== null) return refusal;
      const reason = this.#waitsFor();
      this.#isWaiting = reason !== null;
      const waiting: Waiting | undefined =
        reason === null ? undefined : { kind: 'waiting', for: reason, position: this.position() };
      if (waiting && (told?.for !== waiting.for || told.position !== waiting.position)) {
        told = waiting;
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
    return row !== undefined && stageOf(row) === 'ended';
  }

  /** Gives its place back. A job that has not started is taken out of Slurm; resolves when it is gone there. */
  async leave(hasStarted: boolean): Promise<void> {
    this.#isWaiting = false;
    if (!hasStarted) await this.#withdraw();
    this.#leaveGate();
  }

  async #withdraw(): Promise<void> {
    if (this.#submission === null) return;
    this.#submission.giveUp();
    await this.#submission.settled;
    if (this.id === null && !this.#submission.mayBeThere) return;
    await withdraw(this.#path, this.context);
  }

  /** What it waits for, in words; null for a moment that is not worth telling. */
  #waitsFor(): string | null {
    const { queue, gate } = this.context;
    if (this.#submission === null) return gate.describe(this.order.owner);
    const { obstacle } = this.#submission;
    if (obstacle !== null) return obstacle;
    const isBrief = performance.now() - this.#begin < briefWait;
    const row = this.#row;
    if (row && stageOf(row) === 'waiting' && !(isBrief && isUndecided(row.reason))) {
      return waitingWords(row.reason);
    }
    if (isBrief) return null;
    if (row) return `its node to be ready (Slurm: ${row.state})`;
    if (queue.problem !== null) return `Slurm, which does not answer (${queue.problem})`;
    return this.id === null ? 'its turn to be submitted to Slurm' : 'Slurm to start it';
  }

  /**
   * Looks whether Slurm has ended it before it was started: it is submitted again where that was nobody's fault.
   * @returns a sentence if it cannot run
   */
  #failedStart(): string | null {
    const { id } = this;
    const { queue } = this.context;
    if (id === null || queue.view === null || queue.view.at < this.#since) return null;
    const row = this.#row;
    if (row && stageOf(row) !== 'ended') return null;
    // NFS may know only now that it has run.
    refreshDirectory(this.#path);
    if (hasRun(this.#path)) return null;
    const isThereAgain = queue.rowsOf(this.#path).some((each) => stageOf(each) !== 'ended');
    const isNobodysFault = row === undefined || !lasting.includes(row.state);
    if (isThereAgain || (isNobodysFault && this.#submissions < mostSubmissions)) {
      this.submit();
      return null;
    }
    return failedStart({ id, state: row?.state ?? null, node: row?.node ?? '' }, lastWords(this.#path));
  }
}
