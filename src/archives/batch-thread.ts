import { Worker } from 'node:worker_threads';
import type { Batch } from './entry-batches.js';

/** What the thread runs. The path is the same from this folder and from the bundle's. */
const program = new URL('../archives/batch-worker.js', import.meta.url);

/** Writes batches on another thread, in the order given: making a file is the kernel's work, which two can share. */
export class BatchThread implements AsyncDisposable {
  readonly #worker: Worker;
  #isRunning = true;
  /** Whoever waits for an answer: the thread answers in order. */
  #waiting: ((left: number[] | null) => void)[] = [];

  /** @param archive an open descriptor, which stays open until this is disposed of */
  constructor(archive: number) {
    this.#worker = new Worker(program, { workerData: archive });
    this.#worker.on('message', (left: number[]) => this.#waiting.shift()?.(left));
    this.#worker.on('error', () => this.#end());
    this.#worker.on('exit', () => this.#end());
  }

  /** Which entries of the batch are not written, or null where that is unknown, for the thread is no more. */
  write(batch: Batch): Promise<number[] | null> {
    return new Promise((resolve) => {
      if (!this.#isRunning) {
        resolve(null);
        return;
      }
      this.#waiting.push(resolve);
      this.#worker.postMessage(batch);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate();
  }

  #end(): void {
    this.#isRunning = false;
    for (const settle of this.#waiting) settle(null);
    this.#waiting = [];
  }
}
