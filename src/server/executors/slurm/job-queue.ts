import { EventEmitter } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { parseRows, type QueueRow, rowFormat } from './queue-rows.js';

/** Milliseconds from the end of a call of squeue to the next one: at most one a second for all jobs together. */
const interval = 1000;
/** The same while the controller does not answer. */
const longestInterval = 5000;

/** All jobs of this service in Slurm at one moment. */
export interface QueueView {
  /** When squeue was called (`performance.now()`). */
  readonly at: number;
  readonly rows: readonly QueueRow[];
}

const words = ['--noheader', '--me', '--states=all', `--format=${rowFormat}`];

/**
 * What Slurm says of our jobs: one call of squeue for all of them, at most once a second, and none while nobody asks.
 * Emits `look` after each call, also after one that failed.
 */
export class JobQueue extends EventEmitter<{ look: [] }> {
  /** The last answer; null before the first one. */
  view: QueueView | null = null;
  /** Why there was no answer to the last call; null if there was one. */
  problem: string | null = null;
  #followers = 0;
  #asked = 0;
  #isLooking = false;
  #lastStart = Number.NEGATIVE_INFINITY;
  #lastEnd = Number.NEGATIVE_INFINITY;
  #isAsking = false;

  /** @param ask calls squeue with these words */
  constructor(private readonly ask: (words: readonly string[]) => Promise<string>) {
    super();
    // There is a listener for each job.
    this.setMaxListeners(0);
  }

  /** Looks again and again until the function that this returns is called. */
  follow(): () => void {
    let isFollowing = true;
    this.#followers += 1;
    void this.#run();
    return () => {
      if (isFollowing) this.#followers -= 1;
      isFollowing = false;
    };
  }

  /** Resolves after a look that began after this call, whether it succeeded or failed. */
  async look(): Promise<void> {
    const begin = performance.now();
    this.#asked += 1;
    try {
      void this.#run();
      while (this.#lastStart < begin || this.#isAsking) {
        await new Promise<void>((resolve) => this.once('look', resolve));
      }
    } finally {
      this.#asked -= 1;
    }
  }

  /** The jobs of a job directory, as of the last answer. */
  rowsOf(directory: string): readonly QueueRow[] {
    return this.view?.rows.filter((each) => each.directory === directory) ?? [];
  }

  async #run(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      while (this.#followers > 0 || this.#asked > 0) {
        const pause = this.problem === null ? interval : longestInterval;
        const due = this.#lastEnd + pause - performance.now();
        if (due > 0) await delay(Math.min(due, interval), undefined, { ref: this.#asked > 0 });
        else await this.#look();
      }
    } finally {
      this.#isLooking = false;
    }
  }

  async #look(): Promise<void> {
    const at = performance.now();
    this.#lastStart = at;
    this.#isAsking = true;
    try {
      this.view = { at, rows: parseRows(await this.ask(words)) };
      this.problem = null;
    } catch (cause) {
      this.problem = cause instanceof Error ? cause.message : String(cause);
    }
    this.#isAsking = false;
    this.#lastEnd = performance.now();
    this.emit('look');
  }
}
