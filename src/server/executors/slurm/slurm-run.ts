import { oneLine } from '../../../contract/quote.js';
import { writeJsonFile } from '../../../files/atomic-json.js';
import { runFiles } from '../../../runner/protocol.js';
import { whenThereIsRoom } from '../../when-there-is-room.js';
import type { Ended, Grant, Placed, RunEvent, RunOrder, Waiting } from '../executor.js';
import { checkRunnerRoom, untold } from '../runs/run-end.js';
import type { SlurmContext } from './context.js';
import { letGo, type Placement } from './handshake.js';
import { hasRun } from './has-run.js';
import { QueuedJob, type Rank } from './queued-job.js';
import { RunFollower } from './run-follower.js';
import { grantOf, runRequest } from './run-request.js';

/** One job of this executor: from Slurm's queue to its end. */
export class SlurmRun {
  /** Resolves when it is over for this executor. */
  readonly over: Promise<void>;
  readonly #queued: QueuedJob;
  readonly #unfollow: () => void;
  #settle = () => {};
  #isStopped = false;
  #isLaunched = false;
  #follower: RunFollower | null = null;

  /**
   * @param arrival its number in the order in which jobs came
   * @param position its place among the jobs that wait
   */
  constructor(
    private readonly order: RunOrder,
    private readonly context: SlurmContext,
    arrival: number,
    position: (run: SlurmRun) => number,
  ) {
    this.over = new Promise((resolve) => {
      this.#settle = resolve;
    });
    this.#unfollow = context.queue.follow();
    this.#queued = new QueuedJob(order, context, arrival, () => position(this));
  }

  get path(): string {
    return this.order.directory.path;
  }

  /** Slurm's number of it, once that is known. */
  get id(): number | null {
    return this.#queued.id;
  }

  /** Its place in the order in which jobs wait; null if it does not. */
  get rank(): Rank | null {
    return this.#queued.rank;
  }

  /** Something may have changed: squeue has answered, or a batch script has rung. */
  wake(): void {
    this.#queued.wake();
    this.#follower?.wake();
  }

  /** Ends it in any state; `over` resolves when it has ended. */
  stop(): void {
    this.#isStopped = true;
    this.#queued.stop();
    this.#follower?.stop();
  }

  async *events(): AsyncGenerator<RunEvent, void> {
    let end: Ended | null = null;
    try {
      end = yield* this.#run();
    } finally {
      await this.#queued.leave(this.#follower !== null);
      this.#unfollow();
      this.#settle();
    }
    yield end ?? untold(null, 'It was stopped before it had started');
  }

  /** @returns null if it was stopped before it had started */
  async *#run(): AsyncGenerator<Waiting | Placed, Ended | null> {
    while (!this.#isLaunched && !hasRun(this.path)) {
      const found = yield* this.#queued.untilPlaced();
      if (typeof found === 'string') return untold(null, found);
      if (found === null) break;
      const { devices } = this.order;
      const grant = grantOf(found, devices.kind === 'cpu' ? devices.workers : 1);
      yield { kind: 'placed', where: this.#describe(found, grant), grant };
      this.#isLaunched = await this.#launch(grant);
      if (this.#isStopped) break;
      if (!this.#isLaunched) this.#queued.submit();
    }
    if (!this.#isLaunched && !hasRun(this.path)) return null;
    this.#follower = new RunFollower(this.order, this.context, this.id);
    if (this.#isStopped) this.#follower.stop();
    return await this.#follower.ended();
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
    const launch = async () => {
      checkRunnerRoom(directory);
      // After a power cut there is no runner to read it.
      writeJsonFile(runFiles(directory).request, runRequest(order, grant, this.context), { isKept: false });
      letGo(directory, id);
    };
    return await whenThereIsRoom(
      launch,
      () => this.#isStopped || this.#queued.isGone(),
      (cause) =>
        this.context.report(`Job ${order.directory.id} waits until the machine has room for it`, cause),
    );
  }
}
