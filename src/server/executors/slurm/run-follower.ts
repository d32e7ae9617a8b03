import { existsSync } from 'node:fs';
import { isGone } from '../../../files/is-gone.js';
import { runFiles } from '../../../runner/protocol.js';
import type { Ended, JobPlace } from '../executor.js';
import { isRemoved } from '../runs/is-removed.js';
import { settleRunEnd, untold } from '../runs/run-end.js';
import type { SlurmContext } from './context.js';
import { failedStart, type SlurmEnd, toldByNobody, toldBySlurm } from './endings.js';
import { lastWords, notedId, placementOf, refreshDirectory } from './handshake.js';
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
    this.#stopping ??= new Stopping(this.context);
    this.wake();
  }

  /** Resolves when it has ended, and Slurm has nothing left of it. Never rejects. */
  async ended(): Promise<Ended> {
    const { timeLimit } = this.order;
    this.id ??= notedId(this.#path);
    let wasStopped = false;
    while (!this.#hasEnd() && !this.#isGone()) {
      if (timeLimit !== null && performance.now() - this.#since > timeLimit) this.#isLate = true;
      if (this.#isLate || (await isRemoved(this.#path))) this.stop();
      this.#askToEnd();
      const left =
        timeLimit === null || this.#isLate ? interval : timeLimit - (performance.now() - this.#since);
      await this.#wake.next(Math.min(interval, Math.max(left, 1)));
    }
    wasStopped = this.#stopping !== null;
    const end = await this.#conclude(wasStopped);
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
    const waiting = this.context.queue.rowsOf(this.#path).filter((row) => stageOf(row) === 'waiting');
    void this.context.slurm.cancel(waiting.map(({ id }) => id)).catch(() => {});
  }

  async #conclude(wasStopped: boolean): Promise<Ended> {
    // NFS may know of the file only now.
    refreshDirectory(this.#path);
    const isTold = this.#hasEnd();
    const told = isTold ? await settleRunEnd(this.#path, wasStopped) : null;
    if (told?.exitCode === 0) return this.#late(told);
    await this.#untilGone(isTold ? patience : Number.POSITIVE_INFINITY);
    if (wasStopped) return this.#late(told ?? untold(null, 'It was ended'));
    const slurmEnd = await this.#slurmEnd();
    const bySlurm = toldBySlurm(slurmEnd);
    if (bySlurm) return { ...(told ?? untold(null, '')), ...bySlurm };
    // What the runner could not do is a matter of its node.
    if (told) return told.error === null ? told : { ...told, error: `${told.error} (node ${slurmEnd.node})` };
    const silent = await settleRunEnd(this.#path, false);
    // A full disk, or a directory that is gone, explains it; a runner that was killed is what Slurm may have more words for.
    if (silent.fault !== 'lost' || isGone(this.#path)) return silent;
    const { claim } = runFiles(this.#path);
    if (isGone(claim)) return { ...silent, error: failedStart(slurmEnd, lastWords(this.#path)) };
    if (slurmEnd.state === 'FAILED') return { ...silent, error: `${silent.error} (node ${slurmEnd.node})` };
    return { ...silent, ...toldByNobody(slurmEnd, lastWords(this.#path)) };
  }

  #late(end: Ended): Ended {
    if (!this.#isLate) return end;
    const error = `It was ended at its time limit of ${Number(this.order.timeLimit) / 1000} s`;
    return { ...end, fault: 'timeLimit', error };
  }

  /** Waits until Slurm says that nothing of it is left. */
  async #untilGone(longest: number): Promise<void> {
    const begin = performance.now();
    const { queue } = this.context;
    while (performance.now() - begin < longest) {
      const { view } = queue;
      if (view !== null && view.at > begin - interval && this.#isGone()) return;
      this.#askToEnd();
      await this.#wake.next(interval);
    }
  }

  async #slurmEnd(): Promise<SlurmEnd> {
    const rows = this.context.queue.rowsOf(this.#path);
    const row = rows.find(({ id }) => id === this.id) ?? rows[0];
    const id = row?.id ?? this.id ?? 0;
    const placement = placementOf(this.#path, id);
    const isRequeued = (placement?.starts ?? 0) > 1 || (row !== undefined && stageOf(row) === 'waiting');
    const accounted = row ? null : await this.context.slurm.accounted(id);
    return {
      id,
      state: row?.state ?? accounted?.state ?? null,
      node: placement?.node ?? row?.node ?? accounted?.node ?? '',
      timeLimit: row?.timeLimit ?? '',
      isRequeued,
    };
  }
}
