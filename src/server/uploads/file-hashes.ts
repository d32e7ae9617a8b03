import { Worker } from 'node:worker_threads';
import { hashFile } from '../../files/index.js';

/** What the thread is to do with a file. */
export interface HashOrder {
  readonly id: number;
  readonly file: string;
  /** Bytes that the file has now. */
  readonly size: number;
  /** Whether more comes, the hash is wanted, or nobody wants it any more. */
  readonly then: 'wait' | 'digest' | 'end';
}

export interface HashAnswer {
  readonly id: number;
  readonly sha256: string | null;
  /** Why there is no hash. */
  readonly problem: string | null;
}

/** Hashes one file while it grows. */
export interface FileHash extends Disposable {
  /** The file has so many bytes now, which do not change any more. */
  grew(size: number): void;
  /** The SHA-256 of the file, which does not grow any more. @throws the system's error */
  digest(): Promise<string>;
}

/** A file with fewer bytes is hashed at its end, on the event loop: that takes a few milliseconds. */
const leastInThread = 4 << 20;
/** Bytes by which a file grows before the thread is told. */
const told = 1 << 20;

/** Hashes files of uploads in a thread, which is there while one is hashed. */
export class FileHashes {
  #thread: Worker | null = null;
  #last = 0;
  readonly #waiting = new Map<number, (answer: HashAnswer) => void>();
  #files = 0;

  /** @param length bytes that the file is going to have */
  follow(file: string, length: number): FileHash {
    const inline = async () => (await hashFile(file)).sha256;
    if (length < leastInThread) {
      return { grew: () => {}, digest: inline, [Symbol.dispose]: () => {} };
    }
    this.#last += 1;
    const id = this.#last;
    let size = 0;
    let isOver = false;
    this.#files += 1;
    const tell = (then: HashOrder['then']) =>
      this.#start().postMessage({ id, file, size, then } satisfies HashOrder);
    return {
      grew: (now) => {
        if (now - size < told) return;
        size = now;
        tell('wait');
      },
      digest: async () => {
        size = length;
        const answer = new Promise<HashAnswer>((resolve) => this.#waiting.set(id, resolve));
        tell('digest');
        const { sha256 } = await answer;
        this.#waiting.delete(id);
        // Without the thread it takes longer; an error of the disk comes again.
        return sha256 ?? (await inline());
      },
      [Symbol.dispose]: () => {
        if (isOver) return;
        isOver = true;
        if (this.#thread) tell('end');
        this.#files -= 1;
        if (this.#files === 0) this.close();
      },
    };
  }

  /** Ends the thread. */
  close(): void {
    void this.#thread?.terminate();
    this.#lose('The thread was ended');
  }

  /** Whoever waits for the thread waits no longer. */
  #lose(problem: string): void {
    this.#thread = null;
    for (const [id, settle] of this.#waiting) settle({ id, sha256: null, problem });
  }

  #start(): Worker {
    if (this.#thread) return this.#thread;
    const thread = new Worker(new URL('./hash-thread.js', import.meta.url));
    thread.unref();
    // One that was ended may say so when the next one has work already.
    const lose = (problem: string) => {
      if (this.#thread === thread) this.#lose(problem);
    };
    thread.on('message', (answer: HashAnswer) => this.#waiting.get(answer.id)?.(answer));
    thread.on('error', (cause) => lose(String(cause)));
    thread.on('exit', () => lose('The thread ended'));
    this.#thread = thread;
    return thread;
  }
}
