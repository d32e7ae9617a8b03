import type { SlurmContext } from './context.js';

/** Milliseconds that a runner may take beyond the command's grace before Slurm ends the job itself. */
const runnerGrace = 2500;
/** Milliseconds until the same is asked of Slurm once more. */
const again = 3000;

/**
 * Ends a job in Slurm. One whose runner was started gets a SIGTERM for the runner alone, which gives the command its grace
 * and notes the end; any other one, and a runner that does not end, is cancelled.
 */
export class Stopping {
  readonly #since = performance.now();
  #lastAsked = Number.NEGATIVE_INFINITY;
  #isAsking = false;

  constructor(private readonly context: SlurmContext) {}

  /**
   * Asks Slurm, unless it was asked a moment ago. Returns at once; an error is ignored, since it is asked again.
   * @param ids Slurm's numbers of the job that have not ended
   * @param hasRunner whether a runner may be ending the command
   */
  ask(ids: readonly number[], hasRunner: boolean): void {
    const { slurm, killGrace } = this.context;
    const now = performance.now();
    if (this.#isAsking || ids.length === 0 || now - this.#lastAsked < again) return;
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
