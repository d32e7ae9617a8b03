import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { freemem } from 'node:os';
import path from 'node:path';
import { hasNameRoom } from '../../../runner/process-table.js';
import type { RunnerProgram } from './runner-process.js';
import { removeLeftPlace, Spare } from './spare.js';

export interface SpareSettings {
  /** How many are kept ready. */
  readonly count: number;
  /** How many are kept ready after so many jobs have started at once. */
  readonly most: number;
  /** Milliseconds for which a burst is expected to come again; by default five minutes. */
  readonly memory?: number;
  /** Where they prepare: a directory of nothing else, on the file system of the jobs. */
  readonly directory: string;
}

/** Milliseconds after the last start of a job until a spare runner is started: the job goes first. */
const quiet = 60;
/** Milliseconds after the start of the server: many a server is asked something, and stopped, at once. */
const firstQuiet = 500;
/** Milliseconds until the next one is started where the last one has ended without a job; doubled each time. */
const shortestPause = 1000;
const longestPause = 60_000;

/** Milliseconds without a job after which those that have come back from one, and are too many, leave. */
const idle = 10_000;
/** Milliseconds for which a burst of jobs is expected to come again. */
const burstMemory = 300_000;
/** Bytes of free memory below which no more are kept than are wanted in any case. */
const leastMemory = 2 * 2 ** 30;

/** Runners that are ready before there is a job for them: to start one takes longer than all else that a job's start needs. */
export class Spares {
  readonly #ready = new Set<Spare>();
  /** The last start that was begun. */
  #starting: Promise<void> = Promise.resolve();
  #isClosed = false;
  #pause = 0;
  #timer: NodeJS.Timeout | undefined;
  /** Jobs that have found none since there were as many as were wanted. */
  #missed = 0;
  /** How many are wanted. */
  #wanted: number;
  #forgetting: NodeJS.Timeout | undefined;
  #trimming: NodeJS.Timeout | undefined;

  constructor(
    private readonly program: RunnerProgram,
    private readonly settings: SpareSettings,
  ) {
    this.#wanted = settings.count;
  }

  /** Begins to keep them, and removes what those of an earlier server have left. */
  open(): void {
    this.#removeLeft();
    this.#refill(firstQuiet);
  }

  /** One for the runner of this directory: the last that has had a job, since the system has its pages at hand. */
  take(directory: string): Spare | undefined {
    this.#refill();
    if (!hasNameRoom(directory)) return undefined;
    const spare = [...this.#ready].at(-1);
    if (!spare) {
      this.#expectBurst();
      return undefined;
    }
    this.#ready.delete(spare);
    this.#pause = 0;
    return spare;
  }

  /** Takes one back that is ready for another job. More than are wanted stay only while jobs come. */
  takeBack(spare: Spare): void {
    if (this.#isClosed) {
      void spare.dismiss();
      return;
    }
    this.#ready.add(spare);
    clearTimeout(this.#trimming);
    this.#trimming = setTimeout(() => this.#trim(), idle).unref();
  }

  /** Ends all of them. Resolves when they are gone. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const timer of [this.#timer, this.#forgetting, this.#trimming]) clearTimeout(timer);
    const all = [...this.#ready].map((spare) => spare.dismiss());
    this.#ready.clear();
    await Promise.all([...all, this.#starting]);
  }

  /** Wants as many from now on as have been wanted at once, for a while. */
  #expectBurst(): void {
    const { count, most } = this.settings;
    this.#missed += 1;
    if (freemem() < leastMemory) return;
    this.#wanted = Math.max(this.#wanted, Math.min(most, count + this.#missed));
    clearTimeout(this.#forgetting);
    this.#forgetting = setTimeout(() => {
      this.#wanted = count;
      this.#trim();
    }, this.settings.memory ?? burstMemory).unref();
  }

  /** Ends those above the number that is wanted. */
  #trim(): void {
    for (const spare of [...this.#ready].slice(this.#wanted)) {
      this.#ready.delete(spare);
      void spare.dismiss();
    }
  }

  /** Starts what is missing, in a while. */
  #refill(pause = quiet): void {
    clearTimeout(this.#timer);
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => {
      // One after the other: each takes a part of the processor from the jobs.
      this.#starting = this.#starting.then(() => this.#start());
    }, this.#pause + pause).unref();
  }

  async #start(): Promise<void> {
    if (this.#ready.size >= this.#wanted) {
      this.#missed = 0;
      return;
    }
    try {
      const place = path.join(this.settings.directory, randomBytes(6).toString('hex'));
      const spare = await Spare.start(this.program, place);
      if (this.#isClosed) await spare.dismiss();
      else this.#keep(spare);
    } catch {
      // The machine has no room for it: jobs start without.
      this.#slowDown();
    }
    this.#refill();
  }

  #keep(spare: Spare): void {
    this.#ready.add(spare);
    void spare.exited.then(() => {
      // It has a job, or was not wanted any more.
      if (!this.#ready.delete(spare)) return;
      this.#slowDown();
      this.#refill();
    });
  }

  /** One that ends by itself would be started again and again. */
  #slowDown(): void {
    this.#pause = Math.min(longestPause, Math.max(shortestPause, 2 * this.#pause));
  }

  /** Ends what an earlier server has left. Nothing of a job is in there. */
  #removeLeft(): void {
    const { directory } = this.settings;
    try {
      const left = readdirSync(directory).filter((name) => /^[0-9a-f]{12}$/.test(name));
      for (const name of left) void removeLeftPlace(path.join(directory, name));
    } catch {
      // It takes no room to speak of.
    }
  }
}
