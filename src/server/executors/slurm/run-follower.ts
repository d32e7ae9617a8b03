import { existsSync } from 'node:fs';
import { runFiles } from '../../../runner/protocol.js';
import type { Ended, JobPlace } from '../executor.js';
import { isRemoved } from '../runs/is-removed.js';
import { untold } from '../runs/run-end.js';
import type { SlurmContext } from './context.js';
import { explainEnd, readEnd } from './explain-end.js';
import { notedId } from './handshake.js';
import { type QueueRow, stageOf } from './queue-rows.js';
import { Stopping } from './stopping.js';
import { Wake } from './wake.js';

/** Milliseconds between two looks at the files, besides those after an answer of squeue. */
const interval = 1000;
/** Milliseconds for which Slurm is waited for to say how it ended a job whose end the runner has written. */
const patience = 15_000;
/** Milliseconds for which a job may go on that Slurm does not know any more: its controller may have lost its state. */
const afterlife = 30_000;

/** Follows a job whose runner was let go to its end: by `exit.json`, and by what Slurm says of it. */
export class RunFollower {
  readonly #wake = new Wake();
  /** Answers of squeue count from here on. */
  readonly #since = performance.now();
  #stopping: Stopping | null = null;
  #isLate = false;
  /** Since when Slurm has nothing of it, not even its end. */
  #missingSince: number | null = null;

  /** @param id Slurm's number of it; null if that is not known */
  constructor(
    private readonly order: { readonly directory: JobPlace; readonly timeLimit: number | null },
    private readonly context: SlurmContext,
    private id: number | null,
  ) {}

  get #path(): string {
    return this.order.directory.path;
  }

  wake(): void {
    this.#wake.call();
  }

  /** Ends it. */
  stop(): void {
    if (this.#stopping !== null) return;
    this.#stopping = new Stopping(this.context);
    this.wake();
  }

  /** Resolves when it has ended, and Slurm has nothing left of it. Never rejects. */
  async ended(): Promise<Ended> {
    const { timeLimit } = this.order;
    this.id ??= notedId(this.#path);
    while (!this.#hasEnd() && !this.#isGone()) {
      if (timeLimit !== null && performance.now() - this.#since > timeLimit) this.#isLate = true;
      if (this.#isLate || (await isRemoved(this.#path))) this.stop();
      this.#askToEnd();
      const left =
        timeLimit === null || this.#isLate ? interval : timeLimit - (performance.now() - this.#since);
      await this.#wake.next(Math.min(interval, Math.max(left, 1)));
    }
    const end = await this.#conclude(this.#stopping !== null);
    this.#tidy();
    return end;
  }

  #hasEnd(): boolean {
    return existsSync(runFiles(this.#path).end);
  }

  /** What Slurm has of the job directory and is not a job that waits: a second submission, or the job queued again. */
  #active(): readonly QueueRow[] {
    return this.context.queue.rowsOf(this.#path).filter((row) => stageOf(row) === 'active');
  }

  /** Whether Slurm says that nothing of it runs. */
  #isGone(): boolean {
    const { view } = this.context.queue;
    if (view === null || view.at < this.#since || this.#active().length > 0) {
      this.#missingSince = null;
      return false;
    }
    if (this.context.queue.rowsOf(this.#path).length > 0) return true;
    this.#missingSince ??= performance.now();
    return performance.now() - this.#missingSince > afterlife;
  }

  #askToEnd(): void {
    if (this.#stopping === null) return;
    const ids = this.#active().map(({ id }) => id);
    const known = ids.length === 0 && this.id !== null ? [this.id] : ids;
    this.#stopping.ask(known, true);
  }

  /** Whatever else Slurm has of it could only find that it has run. An error is ignored: then it does find that. */
  #tidy(): void {
    const { queue } = this.context;
    // An older answer may have this job before its start.
    if (queue.view === null || queue.view.at < this.#since) return;
    const waiting = queue.rowsOf(this.#path).filter((row) => stageOf(row) === 'waiting');
    void this.context.slurm.cancel(waiting.map(({ id }) => id)).catch(() => {});
  }

  async #conclude(wasStopped: boolean): Promise<Ended> {
    const told = await readEnd(this.#path, wasStopped);
    if (told?.exitCode === 0) return this.#late(told);
    await this.#untilGone(told !== null);
    if (wasStopped) return this.#late(told ?? untold(null, 'It was ended'));
    return await explainEnd(this.#path, this.id, told, this.context);
  }

  #late(end: Ended): Ended {
    return this.#isLate ? { ...end, fault: 'timeLimit' } : end;
  }

  /**
   * Waits until Slurm says that nothing of it is left.
   * @param isTold whether the runner has written the end: then Slurm is not waited for without an end
   */
  async #untilGone(isTold: boolean): Promise<void> {
    const begin = performance.now();
    while (!isTold || performance.now() - begin < patience) {
      const { view } = this.context.queue;
      if (this.#isGone()) return;
      // Slurm may have forgotten a job at once that has ended.
      if (isTold && view !== null && view.at > begin && this.#active().length === 0) return;
      this.#askToEnd();
      await this.#wake.next(interval);
    }
  }
}
