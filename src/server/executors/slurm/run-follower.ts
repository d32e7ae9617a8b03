import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { isGone } from '../../../files/index.js';
import { runFiles } from '../../../runner/index.js';
import { type Ended, endOfRun, isRemoved, type JobRef, unrecordedEnd } from '../index.js';
import { lastOutput, notedId, placementOf, refreshDirectory } from './batch-script.js';
import { type SlurmContext, Stopping } from './context.js';
import { phaseOf, type QueueFollower, type QueueRow } from './queue.js';

/** How a job ended in Slurm, as far as is known. */
export interface SlurmEnd {
  /** Its id in Slurm. */
  readonly id: number;
  /** Slurm's name for its state; null if Slurm no longer knows the job. */
  readonly state: string | null;
  /** Where it ran; empty if that is not known. */
  readonly node: string;
  /** Its time limit in Slurm's format; empty if that is not known. */
  readonly timeLimit: string;
  /** Whether it was queued again after it had run. */
  readonly isRequeued: boolean;
}

/** How the end event describes an end that Slurm caused. */
type Cause = Pick<Ended, 'fault'> & { readonly error: string };

/** The causes, by the state of a job that Slurm, or a user of Slurm, has ended. */
const causes: Readonly<Record<string, (end: SlurmEnd, onNode: string) => Cause>> = {
  CANCELLED: ({ id }) => ({
    fault: 'lost',
    error: `It was cancelled in Slurm (job ${id}), and not by this service; ask the admin of the cluster`,
  }),
  TIMEOUT: ({ timeLimit }) => ({
    fault: null,
    error: `Slurm ended it at the time limit of the cluster${timeLimit && ` (${timeLimit})`}; the admin of this server sets it with --slurm-time`,
  }),
  DEADLINE: ({ id }) => ({
    fault: null,
    error: `Slurm ended it at its deadline (job ${id})`,
  }),
  OUT_OF_MEMORY: (_, onNode) => ({
    fault: 'outOfMemory',
    error: `Out of memory: Slurm ended it${onNode}, since it used more memory than its job has there; the admin of this server sets that with --slurm-arg=--mem=SIZE`,
  }),
  NODE_FAIL: (_, onNode) => ({
    fault: 'lost',
    error: `The node failed while the job ran${onNode}; submit it again`,
  }),
  BOOT_FAIL: (_, onNode) => ({
    fault: 'lost',
    error: `The node could not be started for the job${onNode}; submit it again`,
  }),
  PREEMPTED: (_, onNode) => ({
    fault: 'lost',
    error: `Slurm preempted it${onNode} for a job that goes first; submit it again`,
  }),
};

/**
 * Why Slurm ended a job.
 * @returns null if Slurm did not end it: then the runner's record says how it ended
 */
export function causeBySlurm(end: SlurmEnd): Cause | null {
  const onNode = end.node === '' ? '' : ` on node ${end.node}`;
  if (end.isRequeued) {
    return {
      fault: 'lost',
      error: `Slurm preempted it${onNode} and queued it again, and an app is never started twice for a job; submit it again`,
    };
  }
  return causes[end.state ?? '']?.(end, onNode) ?? null;
}

/** The end of a job that neither the runner nor Slurm explains. */
function unexplainedEnd({ id, state, node }: SlurmEnd, lastOutput: string): Cause {
  const onNode = node === '' ? '' : ` on node ${node}`;
  const saying = lastOutput === '' ? '' : `: ${lastOutput}`;
  if (state === null) {
    const error = `Slurm does not know its job ${id} any more, and nothing on the shared disk says how it ended${saying}`;
    return { fault: 'lost', error };
  }
  return { fault: 'lost', error: `Its batch script failed in Slurm (job ${id}, ${state})${onNode}${saying}` };
}

/** The explanation if the batch script has not written anything into the job directory. */
const noOutput =
  'its batch script has said nothing; the data directory of this server must be shared with the nodes, under the same path';

/** Why a job could not run if its batch script ended before the start. */
export function failedStart(
  { id, state, node }: Pick<SlurmEnd, 'id' | 'state' | 'node'>,
  lastOutput: string,
): string {
  const onNode = node === '' ? '' : ` on node ${node}`;
  if (state === 'CANCELLED') {
    return `It was cancelled in Slurm (job ${id}) before it started, and not by this service; ask the admin of the cluster`;
  }
  const saying = lastOutput === '' ? noOutput : lastOutput;
  return `It could not be started${onNode} (Slurm job ${id}, ${state ?? 'gone'}): ${saying}`;
}

/** How often an expected `exit.json` is looked for, and milliseconds between two attempts. */
const attempts = 20;
const retryAfter = 500;

/** The end that the runner has recorded; null if there is none. */
async function readEnd(directory: string, wasStopped: boolean): Promise<Ended | null> {
  // An NFS client may see the file only now.
  refreshDirectory(directory);
  return existsSync(runFiles(directory).end) ? await endOfRun(directory, wasStopped) : null;
}

/** The end as Slurm sees it: from squeue as long as it lists the job, then from accounting. */
async function slurmEndOf(directory: string, given: number | null, context: SlurmContext): Promise<SlurmEnd> {
  const rows = context.queue.rowsOf(directory);
  const row = rows.find((each) => each.id === given) ?? rows[0];
  const id = row?.id ?? given ?? 0;
  const placement = placementOf(directory, id);
  const accounted = row ? null : await context.slurm.accounted(id);
  return {
    id,
    state: row?.state ?? accounted?.state ?? null,
    node: placement?.node ?? row?.node ?? accounted?.node ?? '',
    timeLimit: row?.timeLimit ?? '',
    isRequeued: (placement?.starts ?? 0) > 1 || (row !== undefined && phaseOf(row) === 'waiting'),
  };
}

/** Adds the node to a sentence, unless it names it already. */
const onNode = (sentence: string | null, { node }: SlurmEnd): string | null =>
  sentence === null || node === '' || sentence.includes(node) ? sentence : `${sentence} (node ${node})`;

/** Waits for the recorded end of a job whose batch script succeeded, because the record may arrive late over NFS. */
async function lateEnd(directory: string): Promise<Ended | null> {
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    const recorded = await readEnd(directory, false);
    if (recorded) return recorded;
    await delay(retryAfter, undefined, { ref: false });
  }
  return null;
}

/**
 * The end of a job that failed without being ended by this service. What Slurm says takes precedence over the runner's
 * record.
 * @param id its id in Slurm; null if that is not known
 * @param recorded the runner's record; null if there is none
 */
async function explainEnd(
  directory: string,
  id: number | null,
  recorded: Ended | null,
  context: SlurmContext,
): Promise<Ended> {
  const slurmEnd = await slurmEndOf(directory, id, context);
  const cause = causeBySlurm(slurmEnd);
  if (cause) return { ...(recorded ?? unrecordedEnd(null, '')), ...cause };
  const hasStarted = !isGone(runFiles(directory).claim);
  const found = recorded ?? (hasStarted && slurmEnd.state === 'COMPLETED' ? await lateEnd(directory) : null);
  if (found) return { ...found, error: onNode(found.error, slurmEnd) };
  const silent = await endOfRun(directory, false);
  // A full disk or a missing directory explains the end.
  if (silent.fault !== 'lost' || isGone(directory)) return silent;
  if (!hasStarted) return { ...silent, error: failedStart(slurmEnd, lastOutput(directory)) };
  // The batch script failed because the runner was killed.
  if (slurmEnd.state === 'FAILED') return { ...silent, error: onNode(silent.error, slurmEnd) };
  return { ...silent, ...unexplainedEnd(slurmEnd, lastOutput(directory)) };
}

/** Milliseconds between two checks of the files, besides those after each answer of squeue. */
const interval = 1000;
/** Milliseconds to wait for Slurm's view of an end that the runner has recorded. */
const maxWaitForSlurm = 15_000;
/**
 * Milliseconds after which a job that Slurm no longer knows counts as ended, because its controller may have lost its
 * state.
 */
const maxMissing = 30_000;

/** Follows a started job to its end, using `exit.json` and what Slurm reports. */
export class RunFollower {
  readonly #wake: QueueFollower;
  /** Earlier answers of squeue are ignored. */
  readonly #since = performance.now();
  #stopping: Stopping | null = null;
  #isLate = false;
  /** When Slurm was first found to have forgotten it; null while Slurm knows it. */
  #missingSince: number | null = null;

  /** @param id its id in Slurm; null if that is not known */
  constructor(
    private readonly order: { readonly directory: JobRef; readonly timeLimit: number | null },
    private readonly context: SlurmContext,
    private id: number | null,
  ) {
    this.#wake = context.queue.follow();
  }

  get #path(): string {
    return this.order.directory.path;
  }

  /** Starts to end the job; `ended` resolves when that is done. */
  stop(): void {
    if (this.#stopping !== null) return;
    this.#stopping = new Stopping(this.context);
    this.#wake.wake();
  }

  /** Resolves when it has ended and nothing of it is left in Slurm. Never rejects. */
  async ended(): Promise<Ended> {
    using wake = this.#wake;
    const { timeLimit } = this.order;
    this.id ??= notedId(this.#path);
    while (!this.#hasEnd() && !this.#isGone()) {
      if (timeLimit !== null && performance.now() - this.#since > timeLimit) this.#isLate = true;
      if (this.#isLate || (await isRemoved(this.#path))) this.stop();
      this.#askToEnd();
      const left =
        timeLimit === null || this.#isLate ? interval : timeLimit - (performance.now() - this.#since);
      await wake.next(Math.min(interval, Math.max(left, 1)));
    }
    const end = await this.#conclude(this.#stopping !== null);
    this.#cancelQueued();
    return end;
  }

  #hasEnd(): boolean {
    return existsSync(runFiles(this.#path).end);
  }

  /** The submissions of the job that may be running: more than one if it was submitted twice. */
  #active(): readonly QueueRow[] {
    return this.context.queue.rowsOf(this.#path).filter((row) => phaseOf(row) === 'active');
  }

  /** Whether it has ended according to Slurm. */
  #isGone(): boolean {
    const { view } = this.context.queue;
    if (view === null || view.at < this.#since || this.#active().length > 0) {
      this.#missingSince = null;
      return false;
    }
    if (this.context.queue.rowsOf(this.#path).length > 0) return true;
    this.#missingSince ??= performance.now();
    return performance.now() - this.#missingSince > maxMissing;
  }

  #askToEnd(): void {
    if (this.#stopping === null) return;
    const ids = this.#active().map(({ id }) => id);
    const known = ids.length === 0 && this.id !== null ? [this.id] : ids;
    this.#stopping.ask(known, true);
  }

  /** Cancels submissions that still wait. Errors are ignored: a batch script exits by itself if the job has run. */
  #cancelQueued(): void {
    const { queue } = this.context;
    // An earlier answer may list this job as waiting.
    if (queue.view === null || queue.view.at < this.#since) return;
    const waiting = queue.rowsOf(this.#path).filter((row) => phaseOf(row) === 'waiting');
    void this.context.slurm.cancel(waiting.map(({ id }) => id)).catch(() => {});
  }

  async #conclude(wasStopped: boolean): Promise<Ended> {
    const recorded = await readEnd(this.#path, wasStopped);
    if (recorded?.exitCode === 0) return this.#withTimeLimit(recorded);
    await this.#untilGone(recorded !== null);
    if (wasStopped) return this.#withTimeLimit(recorded ?? unrecordedEnd(null, 'It was ended'));
    return await explainEnd(this.#path, this.id, recorded, this.context);
  }

  #withTimeLimit(end: Ended): Ended {
    return this.#isLate ? { ...end, fault: 'timeLimit' } : end;
  }

  /**
   * Waits until Slurm reports that nothing of it is left.
   * @param isRecorded whether the runner has recorded the end: then the wait is limited
   */
  async #untilGone(isRecorded: boolean): Promise<void> {
    const begin = performance.now();
    while (!isRecorded || performance.now() - begin < maxWaitForSlurm) {
      const { view } = this.context.queue;
      if (this.#isGone()) return;
      // Slurm may forget a job as soon as it has ended.
      if (isRecorded && view !== null && view.at > begin && this.#active().length === 0) return;
      this.#askToEnd();
      await this.#wake.next(interval);
    }
  }
}
