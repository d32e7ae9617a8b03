import { setTimeout as delay } from 'node:timers/promises';
import { faultWithoutPath, isDiskFull, isShortage } from '../../../files/index.js';
import { gpusOf, lacksRoom, type RunOrder } from '../index.js';
import { isPrepared, notedId, noteId, prepare } from './batch-script.js';
import type { SlurmContext } from './context.js';
import { phaseOf } from './queue.js';
import { type Resources, SlurmFailure } from './slurm.js';

const mebibyte = 1024 ** 2;
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
export class Submission {
  /** Slurm's number of the job, once it is in the queue. */
  id: number | null = null;
  /** Why the job was not accepted; null if it may still be. */
  refusal: string | null = null;
  /** What the job waits for before it is in the queue, as a phrase; null if nothing delays it. */
  obstacle: string | null = null;
  /** Whether Slurm may have the job. */
  mayBeQueued: boolean;
  /** Resolves when it is in the queue, refused or given up. Never rejects. */
  readonly #settled: Promise<void>;
  readonly #givenUp = new AbortController();

  /**
   * @param changed called whenever one of the values has changed
   * @param isFirst whether to adopt a submission of an earlier server that has ended
   */
  constructor(
    private readonly order: RunOrder,
    private readonly context: SlurmContext,
    private readonly changed: () => void,
    private readonly isFirst: boolean,
  ) {
    this.mayBeQueued = order.isAccepted || isPrepared(order.directory.path);
    this.#settled = this.#run().catch((cause) => {
      if (!this.#isGivenUp) this.#end({ refusal: `It could not be submitted: ${faultWithoutPath(cause)}` });
    });
  }

  /** Stops trying. Resolves when no call of sbatch is running. */
  async giveUp(): Promise<void> {
    this.#givenUp.abort();
    await this.#settled;
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

  /** Looks for the job in the queue, if it may be there. @returns why that failed; null if it did not */
  async #find(): Promise<string | null> {
    if (!this.mayBeQueued) return null;
    const { queue } = this.context;
    await queue.refresh();
    if (queue.problem !== null) return `Slurm, which does not answer (${queue.problem})`;
    const { path } = this.order.directory;
    const rows = queue.rowsOf(path).filter((row) => phaseOf(row) !== 'ended');
    const ended = this.isFirst ? queue.rowOf(notedId(path)) : undefined;
    const row = rows.find((each) => phaseOf(each) === 'active') ?? rows[0] ?? ended;
    if (row) this.#end({ id: row.id });
    return null;
  }

  get #resources(): Resources {
    const { devices, needs, timeLimit } = this.order;
    const { nodes, largest, maxMinutes } = this.context.cluster;
    const cpus = Math.max(devices.kind === 'cpu' ? devices.workers : 0, Math.ceil(needs.cpus ?? 0));
    // A job that asks for more cores than any node has would never run; it gets all cores of one node.
    const max = nodes === null ? cpus : largest.cpus;
    // Slurm assigns no memory of a node whose memory it does not know.
    const isKnown = needs.memory !== null && largest.memory !== null;
    return {
      gpus: gpusOf(devices),
      cpus: cpus === 0 ? null : Math.min(cpus, max),
      memory: isKnown ? Math.ceil(needs.memory / mebibyte) : null,
      minutes: minutesFor(timeLimit, maxMinutes),
    };
  }

  /** @returns what it waits for; null if it is in the queue or refused */
  async #submit(): Promise<string | null> {
    const { directory } = this.order;
    if (this.#isGivenUp) return null;
    try {
      if (lacksRoom(directory.path)) return 'room on the disk';
      prepare(directory.path);
      // Holds even if this process or sbatch is killed now.
      this.mayBeQueued = true;
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
