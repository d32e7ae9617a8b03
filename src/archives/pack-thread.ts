import { Worker } from 'node:worker_threads';
import type { Packed } from './pack.js';
import type { PackAnswer, PackOrder } from './pack-worker.js';

/** How many archives are made at once: what reads and deflates runs on Node's own pool, which has four threads. */
const concurrency = 4;

/** What the thread runs. The path is the same from this folder and from the bundle's, dist/bundle/start. */
const program = new URL('../archives/pack-worker.js', import.meta.url);

interface Waiting {
  readonly order: PackOrder;
  readonly settle: (answer: PackAnswer) => void;
}

/**
 * Packs directories on one thread of its own, off the event loop of whoever asks. The thread is started by the first
 * order and kept: loading the packer takes longer than packing most results.
 */
export class PackThread {
  #worker: Worker | null = null;
  #next = 0;
  readonly #running = new Map<number, Waiting>();
  #queue: Waiting[] = [];

  /**
   * Packs a directory (see `packDirectory`). Aborting ends it; no partial archive stays behind.
   * @throws what `packDirectory` throws, or the reason of the signal
   */
  pack(source: string, archive: string, signal: AbortSignal): Promise<Packed> {
    signal.throwIfAborted();
    return new Promise((resolve, reject) => {
      const order: PackOrder = { id: this.#next++, source, archive };
      const abort = () => this.#abort(order.id);
      const settle = (answer: PackAnswer) => {
        signal.removeEventListener('abort', abort);
        if (signal.aborted) reject(signal.reason);
        else if ('packed' in answer) resolve(answer.packed);
        else reject(Object.assign(new Error(answer.message), { code: answer.code }));
      };
      signal.addEventListener('abort', abort, { once: true });
      this.#queue.push({ order, settle });
      this.#dispatch();
    });
  }

  #dispatch(): void {
    while (this.#running.size < concurrency) {
      const next = this.#queue.shift();
      if (!next) break;
      this.#running.set(next.order.id, next);
      this.#thread().postMessage(next.order);
    }
  }

  /** The order waits, and is dropped, or runs, and the thread is told; its answer then ends it. */
  #abort(id: number): void {
    const waiting = this.#queue.find(({ order }) => order.id === id);
    this.#queue = this.#queue.filter((each) => each !== waiting);
    waiting?.settle({ id, message: 'aborted', code: undefined });
    if (this.#running.has(id)) this.#thread().postMessage({ abort: id });
  }

  #settle(answer: PackAnswer): void {
    const waiting = this.#running.get(answer.id);
    this.#running.delete(answer.id);
    waiting?.settle(answer);
    this.#dispatch();
  }

  #thread(): Worker {
    if (this.#worker) return this.#worker;
    const worker = new Worker(program);
    worker.on('message', (answer: PackAnswer) => this.#settle(answer));
    worker.on('error', (cause: Error) => {
      // What the thread was doing has failed with it; the next order starts another.
      this.#worker = null;
      for (const id of [...this.#running.keys()])
        this.#settle({ id, message: cause.message, code: undefined });
    });
    // After the listeners, which would hold the process otherwise.
    worker.unref();
    this.#worker = worker;
    return worker;
  }
}
