import { mkdirSync, rmSync } from 'node:fs';
import { Socket } from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { writeJsonFile } from '../files/atomic-json.js';
import { hasProc, identify, nameRunner, nameSpare } from './process-table.js';
import { type RunnerRecord, runFiles } from './protocol.js';
import { rehearse } from './rehearse.js';
import { type SpareMessage, spareChannel, spareReady, spareTaken } from './spare-protocol.js';

/** A job that the server has handed to a spare runner. */
export interface HandedOver {
  /** The job's directory. */
  readonly directory: string;
  /** A FIFO that nobody has opened, on the file system of the jobs. It may be missing. */
  readonly fifo: string;
  /** Tells the server that the job is claimed. */
  readonly tellTaken: () => void;
}

/** Jobs that a runner may have. Each needs a FIFO, and all of them are made by one program. */
const mostJobs = 16;

/** What the server has written; undefined for a part of a line, which it leaves if it dies meanwhile. */
function messageIn(line: string): SpareMessage | undefined {
  try {
    return JSON.parse(line) as SpareMessage;
  } catch {
    return undefined;
  }
}

/** Does something, and says whether that was possible. */
function succeeds(action: () => void): boolean {
  try {
    action();
    return true;
  } catch {
    return false;
  }
}

/**
 * Becomes the runner of a job for all who look. Done before the job is claimed: if the server dies then, the next one finds
 * the runner by its name.
 * @throws the system's error if the directory is gone
 */
function becomeRunnerOf(directory: string): void {
  process.chdir(directory);
  nameRunner(directory);
}

/** Becomes a runner without a job for all who look, and keeps no file system from being unmounted. */
function becomeSpare(): void {
  process.chdir('/');
  nameSpare();
}

/** The jobs that a server hands to this runner, one after another. A server that dies, or wants the runner no longer, closes the channel. */
export class HandedJobs {
  readonly #channel = new Socket({ fd: spareChannel });
  /** Where it gets ready. */
  #place = '';
  #prepared = Promise.resolve();
  /** How many it has had. */
  #had = 0;
  #onJob: (directory: string) => void = () => {};
  readonly #closed: Promise<unknown>;

  /** @param stop aborted to end a runner that has no job */
  constructor(private readonly stop: AbortSignal) {
    nameSpare();
    this.#closed = new Promise((resolve) => this.#channel.once('close', resolve));
    stop.addEventListener('abort', () => this.leave());
    const lines = createInterface({ input: this.#channel });
    // A channel fails when the server dies. Both tell it.
    for (const each of [this.#channel, lines]) each.on('error', () => this.leave());
    lines.on('line', (line) => {
      const { place, job } = messageIn(line) ?? {};
      if (place !== undefined) {
        this.#place = place;
        this.#prepared = this.#prepare();
      }
      if (job !== undefined) void this.#prepared.then(() => this.#onJob(job));
    });
  }

  /** Waits for the next job. Resolves with undefined if there will be none; then nothing of the runner is left. */
  async next(): Promise<HandedOver | undefined> {
    const directory = await new Promise<string | undefined>((resolve) => {
      this.#onJob = (job) => resolve(succeeds(() => becomeRunnerOf(job)) ? job : undefined);
      // A rehearsal under way ends first, and a job that was handed over before is taken.
      void this.#closed.then(() => this.#prepared).then(() => resolve(undefined));
    });
    this.#onJob = () => {};
    // A signal to end that came with the job, or before it, is heard after the channel: in this turn of the event loop, or in the next
    // one, if this one had looked for what is there before the signal was delivered.
    await nextTurn();
    await nextTurn();
    if (directory === undefined || this.stop.aborted) {
      this.leave();
      succeeds(() => rmSync(this.#place, { recursive: true, force: true }));
      return undefined;
    }
    this.#had += 1;
    const tellTaken = () => void this.#channel.write(`${spareTaken}\n`);
    return { directory, fifo: this.#fifo(this.#had - 1), tellTaken };
  }

  /**
   * Offers itself to the server for another job, when the last one is over.
   * @returns whether to wait for one
   */
  offer(): boolean {
    const isWanted = !this.stop.aborted && !this.#channel.destroyed && this.#had < mostJobs;
    // Where its name cannot be seen, others would still take it for the runner of its last job.
    if (!isWanted || !hasProc || !succeeds(becomeSpare)) return false;
    this.#channel.write(`${spareReady}\n`);
    return true;
  }

  /** Lets go of the server. */
  leave(): void {
    this.#channel.destroy();
  }

  #fifo(number: number): string {
    return path.join(this.#place, `fifo-${number}`);
  }

  /** Gets ready in a directory of its own. What fails here only takes longer later. */
  async #prepare(): Promise<void> {
    // A server that is gone by now is seen to be gone.
    await nextTurn();
    if (this.#channel.destroyed || this.#channel.readableEnded) return;
    const place = this.#place;
    const rehearsal = path.join(place, 'rehearsal');
    try {
      // It does not exist yet.
      mkdirSync(place, { mode: 0o700 });
      await rehearse(
        rehearsal,
        Array.from({ length: mostJobs }, (_, number) => this.#fifo(number)),
      );
      // A later server ends it by this, if it does not see the death of its own because it is stopped.
      const record: RunnerRecord = { runner: identify(process.pid), command: null };
      writeJsonFile(runFiles(place).record, record, { isKept: false });
    } catch {
    } finally {
      succeeds(() => rmSync(rehearsal, { recursive: true, force: true }));
    }
  }
}
