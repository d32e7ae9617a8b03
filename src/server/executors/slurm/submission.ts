import { setTimeout as delay } from 'node:timers/promises';
import { faultWithoutPath, isDiskFull, isShortage } from '../../../files/error-code.js';
import { gpusOf, type RunOrder } from '../executor.js';
import { lacksRoom } from '../runs/run-end.js';
import { SlurmFailure } from './commands.js';
import type { SlurmContext } from './context.js';
import { isPrepared, notedId, noteId, prepare } from './handshake.js';
import { stageOf } from './queue-rows.js';
import type { Resources } from './slurm.js';

/** Milliseconds until the next try. */
const pause = 1000;

/** Minutes by which Slurm's time limit is longer: the batch script may wait for two of them, and a job has a grace to end. */
const room = 3;

/**
 * Minutes that Slurm is asked for. The service ends a job at its time limit; Slurm does so if the service cannot, and starts
 * short jobs earlier.
 * @param timeLimit milliseconds; null for none
 * @param longest minutes that the partition allows, beyond which Slurm would never start the job; null if that is not known
 */
export function minutesFor(timeLimit: number | null, longest: number | null): number | null {
  if (timeLimit === null) return null;
  return Math.min(Math.ceil(timeLimit / 60_000) + room, Math.floor(longest ?? Number.POSITIVE_INFINITY));
}

/**
 * Brings one job into Slurm's queue: finds it there, where an earlier server may have submitted it, or submits it. As long
 * as nobody knows whether it is there, it is not submitted.
 */
export class Submission {
  /** Slurm's number of the job, once it is in the queue. */
  id: number | null = null;
  /** Slurm's own words, if it does not take the job. */
  refusal: string | null = null;
  /** What the job waits for before it is in the queue, in words; null if for nothing that is worth telling. */
  obstacle: string | null = null;
  /** Settles when it is in the queue, refused or given up. Never rejects. */
  readonly settled: Promise<void>;
  readonly #givenUp = new AbortController();
  #mayBeThere: boolean;

  /**
   * @param changed called whenever one of the values has changed
   * @param isFirst whether an end counts that Slurm has given a submission of an earlier server
   */
  constructor(
    private readonly order: Pick<RunOrder, 'directory' | 'devices' | 'timeLimit' | 'isAccepted'>,
    private readonly context: SlurmContext,
    private readonly changed: () => void,
    private readonly isFirst: boolean,
  ) {
    this.#mayBeThere = order.isAccepted || isPrepared(order.directory.path);
    this.settled = this.#run().catch((cause) => {
      if (!this.#isGivenUp) this.#end({ refusal: `It could not be submitted: ${faultWithoutPath(cause)}` });
    });
  }

  /** Whether Slurm may have the job, for all that is known. */
  get mayBeThere(): boolean {
    return this.#mayBeThere;
  }

  /** Ends the tries. A call of sbatch that is under way ends by itself: `settled` waits for it. */
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
        await delay(pause, undefined, { ref: false, signal: this.#givenUp.signal });
      }
    } finally {
      release();
    }
  }

  #end(change: Partial<Pick<Submission, 'id' | 'refusal' | 'obstacle'>>): void {
    Object.assign(this, { obstacle: null }, change);
    this.changed();
  }

  /** Looks for it in the queue, if it may be there. @returns why that cannot be told; null if it is told */
  async #find(): Promise<string | null> {
    if (!this.#mayBeThere) return null;
    const { queue } = this.context;
    await queue.look();
    if (queue.problem !== null) return `Slurm, which does not answer (${queue.problem})`;
    const rows = queue.rowsOf(this.order.directory.path).filter((row) => stageOf(row) !== 'ended');
    const ended = this.isFirst
      ? queue.view?.rows.find(({ id }) => id === notedId(this.order.directory.path))
      : undefined;
    const row = rows.find((each) => stageOf(each) === 'active') ?? rows[0] ?? ended;
    if (row) this.#end({ id: row.id });
    return null;
  }

  get #resources(): Resources {
    const { devices, timeLimit } = this.order;
    const workers = devices.kind === 'cpu' ? devices.workers : 1;
    // A job that asks for more than any node has gets all that one has: otherwise it would never run.
    const most = this.context.cluster.nodes === null ? workers : this.context.cluster.biggest.cpus;
    const minutes = minutesFor(timeLimit, this.context.cluster.longest);
    return { gpus: gpusOf(devices), cpus: Math.min(workers, most), minutes };
  }

  /** @returns what it waits for; null if it is in the queue or refused */
  async #submit(): Promise<string | null> {
    const { directory } = this.order;
    if (this.#isGivenUp) return null;
    try {
      if (lacksRoom(directory.path)) return 'room on the disk';
      prepare(directory.path);
      // Whatever becomes of this process and of sbatch.
      this.#mayBeThere = true;
      const id = await this.context.slurm.submit(directory, this.#resources);
      this.#end({ id });
      noteId(directory.path, id);
      return null;
    } catch (cause) {
      // It is in the queue, and is found there by its directory.
      if (this.id !== null) return null;
      if (isDiskFull(cause) || isShortage(cause)) return 'room on the machine of the server';
      if (!(cause instanceof SlurmFailure)) throw cause;
      if (cause.isCrowded) return `Slurm, which has as many jobs as a limit allows (${cause.limit})`;
      if (cause.isPassing) return `Slurm, which does not answer (${cause.message})`;
      this.#end({ refusal: `Slurm refused it: ${cause.message}` });
      return null;
    }
  }
}
