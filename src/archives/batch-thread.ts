import { Worker } from 'node:worker_threads';
import type { Batch } from './entry-batches.js';

/** Writes batches on another thread, one at a time: making a file is the kernel's work, which two can share. */
export class BatchThread implements AsyncDisposable {
  readonly #worker: Worker;
  #isRunning = true;
  #settle: (left: number[] | null) => void = () => {};

  /** @param archive an open descriptor, which stays open until this is disposed of */
  constructor(archive: number) {
    this.#worker = new Worker(new URL('./batch-worker.js', import.meta.url), { workerData: archive });
    this.#worker.on('message', (left: number[]) => this.#settle(left));
    this.#worker.on('error', () => this.#end());
    this.#worker.on('exit', () => this.#end());
  }

  /** Which entries of the batch are not written, or null where that is unknown, for the thread is no more. */
  write(batch: Batch): Promise<number[] | null> {
    return new Promise((resolve) => {
      this.#settle = resolve;
      if (this.#isRunning) this.#worker.postMessage(batch);
      else resolve(null);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate();
  }

  #end(): void {
    this.#isRunning = false;
    this.#settle(null);
  }
}
