import { oneLine } from '../../../contract/quote.js';
import { writeJsonFile } from '../../../files/atomic-json.js';
import { isGone } from '../../../files/is-gone.js';
import { runFiles } from '../../../runner/protocol.js';
import { whenThereIsRoom } from '../../when-there-is-room.js';
import type { Ended, Grant, Placed, RunEvent, RunOrder, Waiting } from '../executor.js';
import { lacksRoom, untold } from '../runs/run-end.js';
import type { SlurmContext } from './context.js';
import { failedStart } from './endings.js';
import { lastWords, letGo, type Placement, placementOf, refreshDirectory } from './handshake.js';
import { stageOf } from './queue-rows.js';
import { isUndecided, waitingWords } from './reasons.js';
import { RunFollower } from './run-follower.js';
import { grantOf, runRequest } from './run-request.js';
import { gpusOf, Submission } from './submission.js';
import { Wake } from './wake.js';
import { withdraw } from './withdraw.js';

/** Milliseconds that Slurm may take for a start before the job is said to wait: most start at once. */
const briefWait = 3000;
/** How often a job is submitted that Slurm gave back before it was started: nodes may fail one after the other. */
const mostSubmissions = 10;

/** Whether a runner has ever had the job; true if that cannot be determined, so that no job runs twice. */
export function hasRun(directory: string): boolean {
  const { claim, end } = runFiles(directory);
  return ![claim, end].every(isGone);
}

/** A place in the order in which jobs wait: smaller numbers go first, compared one after the other. */
export type Rank = readonly [number, number];

/** One job of this executor: from Slurm's queue to its end. */
export class SlurmRun {
  /** Resolves when it is over for this executor. */
  readonly over: Promise<void>;
  readonly #wake = new Wake();
  readonly #begin = performance.now();
  #settle = () => {};
  #submission: Submission | null = null;
  #submissions = 0;
  /** When it was last submitted or found, or its runner let go. */
  #since = this.#begin;
  #isWaiting = false;
  #isStopped = false;
  #isLaunched = false;
  #follower: RunFollower | null = null;
  readonly #leave: (() => void)[];

  /**
   * @param arrival its number in the order in which jobs came
   * @param position its place among the jobs that wait
   */
  constructor(
    private readonly order: RunOrder,
    private readonly context: SlurmContext,
    private readonly arrival: number,
    private readonly position: (run: SlurmRun) => number,
  ) {
    this.over = new Promise((resolve) => {
      this.#settle = resolve;
    });
    const { queue, gate } = context;
    const { owner, devices, grant } = order;
    this.#leave = [queue.follow()];
    if (hasRun(this.path)) this.#leave.push(gate.hold(owner, grant?.gpus.length ?? gpusOf(devices)));
    else this.#leave.push(gate.enter(owner, gpusOf(devices), () => this.#submit()));
  }

  get path(): string {
    return this.order.directory.path;
  }

  /** Slurm's number of it, once that is known. */
  get id(): number | null {
    return this.#submission?.id ?? null;
  }

  /** Something may have changed: squeue has answered, or a batch script has rung. */
  wake(): void {
    this.#wake.call();
    this.#follower?.wake();
  }

  /** Ends it in any state; `over` resolves when it has ended. */
  stop(): void {
    this.#isStopped = true;
    this.#follower?.stop();
    this.wake();
  }

  /** Its place in the order in which jobs wait; null if it does not. */
  get rank(): Rank | null {
    if (!this.#isWaiting) return null;
    const row = this.context.queue.view?.rows.find(({ id }) => id === this.id);
    // What is not in Slurm's queue yet comes after what is, in the order in which it came.
    return row ? [-row.priority, row.id] : [1, this.arrival];
  }

  async *events(): AsyncGenerator<RunEvent, void> {
    let end: Ended | null = null;
    try {
      end = yield* this.#run();
    } finally {
      this.#isWaiting = false;
      if (this.#follower === null) await this.#withdraw();
      for (const leave of this.#leave) leave();
      this.#settle();
    }
    yield end ?? untold(null, 'It was stopped before it had started');
  }

  /** @returns null if it was stopped before it had started */
  async *#run(): AsyncGenerator<Waiting | Placed, Ended | null> {
    while (!hasRun(this.path)) {
      const found = yield* this.#untilPlaced();
      if (typeof found === 'string') return untold(null, found);
      if (found === null) break;
      const { devices } = this.order;
      const grant = grantOf(found, devices.kind === 'cpu' ? devices.workers : 1);
      yield { kind: 'placed', where: this.#describe(found, grant), grant };
      if (await this.#launch(grant)) {
        this.#isLaunched = true;
        break;
      }
      if (this.#isStopped) break;
      this.#submit();
    }
    if (!this.#isLaunched && !hasRun(this.path)) return null;
    this.#follower = new RunFollower(this.order, this.context, this.id);
    if (this.#isStopped) this.#follower.stop();
    return await this.#follower.ended();
  }

  /** Brings it into Slurm's queue. */
  #submit(): void {
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
  async *#untilPlaced(): AsyncGenerator<Waiting, Placement | string | null> {
    let told: Waiting | undefined;
    this.#isWaiting = false;
    for (;;) {
      if (this.#isStopped || hasRun(this.path)) return null;
      const placement = this.id === null ? null : placementOf(this.path, this.id);
      // A batch script that was not let go on in time gives its node back.
      if (placement && !this.#isGone(this.id)) return placement;
      const refusal = this.#submission?.refusal ?? this.#failedStart();
      if (refusal != null) return refusal;
      const reason = this.#waitsFor();
      this.#isWaiting = reason !== null;
      const waiting: Waiting | null =
        reason === null ? null : { kind: 'waiting', for: reason, position: this.position(this) };
      if (waiting && (told?.for !== waiting.for || told.position !== waiting.position)) {
        told = waiting;
        yield waiting;
      } else {
        await this.#wake.next();
      }
    }
  }

  /** What it waits for, in words; null for a moment that is not worth telling. */
  #waitsFor(): string | null {
    const { queue, gate } = this.context;
    if (this.#submission === null) return gate.describe(this.order.owner);
    const { id, obstacle } = this.#submission;
    if (obstacle !== null) return obstacle;
    const isBrief = performance.now() - this.#begin < briefWait;
    const row = queue.view?.rows.find((each) => each.id === id);
    if (row && stageOf(row) === 'waiting' && !(isBrief && isUndecided(row.reason)))
      return waitingWords(row.reason);
    if (isBrief) return null;
    if (row) return `its node to be ready (Slurm: ${row.state})`;
    return queue.problem === null
      ? 'its turn to be submitted to Slurm'
      : `Slurm, which does not answer (${queue.problem})`;
  }

  /**
   * Looks whether Slurm has ended it before it was started: it is submitted again where that was nobody's fault.
   * @returns a sentence if it cannot run
   */
  #failedStart(): string | null {
    const { id } = this;
    const { view } = this.context.queue;
    if (id === null || view === null || view.at < this.#since) return null;
    const row = view.rows.find((each) => each.id === id);
    if (row && stageOf(row) !== 'ended') return null;
    // NFS may know only now that it has run.
    refreshDirectory(this.path);
    if (hasRun(this.path)) return null;
    const isAgain = this.context.queue.rowsOf(this.path).some((each) => stageOf(each) !== 'ended');
    const isNobodysFault =
      row === undefined || !['FAILED', 'CANCELLED', 'TIMEOUT', 'OUT_OF_MEMORY'].includes(row.state);
    if (isAgain || (isNobodysFault && this.#submissions < mostSubmissions)) {
      this.#submit();
      return null;
    }
    return failedStart({ id, state: row?.state ?? null, node: row?.node ?? '' }, lastWords(this.path));
  }

  /** Where it runs, in words. */
  #describe({ node }: Placement, { gpus }: Grant): string {
    const devices = gpus.length > 0 ? `GPU ${gpus.join(', ')}` : 'the CPU';
    return `${devices} of node ${oneLine(node)} (Slurm job ${this.id})`;
  }

  /** @returns whether its batch script was let go on; false if it was stopped, or is gone from Slurm */
  async #launch(grant: Grant): Promise<boolean> {
    const { order, path: directory, id } = this;
    if (id === null) return false;
    const isGivenUp = () => this.#isStopped || this.#isGone(id);
    const launch = async () => {
      if (await lacksRoom(directory)) {
        throw Object.assign(new Error('The disk has no room for a runner'), { code: 'ENOSPC' });
      }
      // After a power cut there is no runner to read it.
      writeJsonFile(runFiles(directory).request, runRequest(order, grant, this.context), {
        isKept: false,
      });
      letGo(directory, id);
    };
    return await whenThereIsRoom(launch, isGivenUp, (cause) =>
      this.context.report(`Job ${order.directory.id} waits until the machine has room for it`, cause),
    );
  }

  /** Whether Slurm has ended it since it was placed. */
  #isGone(id: number | null): boolean {
    const row = this.context.queue.view?.rows.find((each) => each.id === id);
    return row !== undefined && stageOf(row) === 'ended';
  }

  /** Takes it out of Slurm's queue before it has started. Resolves when it is gone. */
  async #withdraw(): Promise<void> {
    if (this.#submission === null) return;
    this.#submission.giveUp();
    await this.#submission.settled;
    if (this.id === null && !this.#submission.mayBeThere) return;
    await withdraw(this.path, this.context);
  }
}
