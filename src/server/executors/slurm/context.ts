import type { Turns } from '../../../files/index.js';
import type { Report } from '../../report.js';
import type { Cluster } from './cluster.js';
import type { OwnerQuota } from './owner-quota.js';
import { type JobQueue, phaseOf } from './queue.js';
import type { Slurm } from './slurm.js';

/** The sort key of a waiting job: compared by the first number, then by the second; smaller ones go first. */
export type Rank = readonly [number, number];

export interface Ranked {
  /** Null if it does not wait. */
  readonly rank: Rank | null;
}

/** Shared by all jobs of the executor. */
export interface SlurmContext {
  readonly environment: NodeJS.ProcessEnv;
  readonly passEnvironment: readonly string[];
  readonly slurm: Slurm;
  readonly queue: JobQueue;
  readonly cluster: Cluster;
  readonly quota: OwnerQuota;
  readonly runs: ReadonlySet<Ranked>;
  /** One submission at a time, so that jobs enter Slurm's queue in order of arrival. */
  readonly turns: Turns;
  /** Milliseconds between SIGTERM and SIGKILL. */
  readonly killGrace: number;
  /** Bytes kept from the start of a job's log. */
  readonly maxLogBytes: number;
  readonly report: Report;
}

/** Milliseconds that a runner may take beyond the command's grace before the job is cancelled in Slurm. */
const runnerGrace = 2500;
/** Milliseconds before Slurm is asked again. */
const repeatAfter = 3000;

/**
 * Ends a job in Slurm. If its runner was started, only the runner gets a SIGTERM; it gives the command its grace period and
 * records the end. Otherwise, or if the runner does not end in time, the job is cancelled.
 */
export class Stopping {
  readonly #since = performance.now();
  #lastAsked = Number.NEGATIVE_INFINITY;
  #isAsking = false;

  constructor(private readonly context: SlurmContext) {}

  /**
   * Asks Slurm, unless it was asked a moment ago. Returns at once, and ignores errors, because callers ask until the job ends.
   * @param ids Slurm's numbers of the job's submissions that have not ended
   * @param hasRunner whether a runner was started
   */
  ask(ids: readonly number[], hasRunner: boolean): void {
    const { slurm, killGrace } = this.context;
    const now = performance.now();
    if (this.#isAsking || ids.length === 0 || now - this.#lastAsked < repeatAfter) return;
    this.#isAsking = true;
    this.#lastAsked = now;
    const isGentle = hasRunner && now - this.#since < killGrace + runnerGrace;
    const asked = isGentle ? Promise.all(ids.map((id) => slurm.terminate(id))) : slurm.cancel(ids);
    void Promise.resolve(asked)
      .catch(() => {})
      .finally(() => {
        this.#isAsking = false;
      });
  }
}

/** Cancels all submissions of a job that was never started. Resolves when Slurm says that none is left. */
export async function cancelUnstarted(directory: string, context: SlurmContext): Promise<void> {
  const { queue } = context;
  const stopping = new Stopping(context);
  for (;;) {
    await queue.refresh();
    const left = queue.rowsOf(directory).filter((row) => phaseOf(row) !== 'ended');
    if (queue.problem === null && left.length === 0) return;
    stopping.ask(
      left.map(({ id }) => id),
      false,
    );
  }
}
