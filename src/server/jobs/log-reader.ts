import { type FSWatcher, watch } from 'node:fs';
import { open } from 'node:fs/promises';
import type { Job } from './job.js';

/** Bytes read, and so lines handed on, at once. */
const chunkSize = 256 * 1024;
/** Milliseconds after which the file is looked at again though nothing told of a change (a network file system). */
const pollInterval = 1000;

/** Lines of a log in order, as one batch. */
export interface LogBatch {
  readonly lines: readonly string[];
  /** Number of the first of them; the log's first line is 1. */
  readonly first: number;
}

/** Wakes a reader at a change of the file or of the job, or after a while. */
class ChangeSignal {
  #changed = false;
  #wake: (() => void) | null = null;
  readonly #watcher: FSWatcher | null;

  constructor(
    private readonly job: Job,
    private readonly signal: AbortSignal,
  ) {
    this.#watcher = this.#watchFile();
    job.on('change', this.#notify);
    job.on('log', this.#notify);
    signal.addEventListener('abort', this.#notify);
  }

  /** Resolves at the next change, or at once if there was one since the last call. */
  async next(patience: number): Promise<void> {
    if (!this.#changed) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(patience, pollInterval));
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.#wake = null;
    this.#changed = false;
  }

  close(): void {
    this.#watcher?.close();
    this.job.off('change', this.#notify);
    this.job.off('log', this.#notify);
    this.signal.removeEventListener('abort', this.#notify);
  }

  readonly #notify = () => {
    this.#changed = true;
    this.#wake?.();
  };

  #watchFile(): FSWatcher | null {
    try {
      const watcher = watch(this.job.directory.logFile, this.#notify);
      watcher.on('error', () => watcher.close());
      return watcher;
    } catch {
      // No more watches to be had: polling does.
      return null;
    }
  }
}

/**
 * Reads a job's log from a position, then follows it until the job has ended and the last line is read. The file
 * is the log: nothing is queued, a slow reader slows itself.
 * @param since how many lines to skip
 * @param silence milliseconds without a line after which null is yielded, again and again
 */
export async function* readLog(
  job: Job,
  since: number,
  silence: number,
  signal: AbortSignal,
): AsyncGenerator<LogBatch | null> {
  await using file = await open(job.directory.logFile);
  const changes = new ChangeSignal(job, signal);
  const chunk = Buffer.allocUnsafe(chunkSize);
  let rest: Buffer = Buffer.alloc(0);
  let position = 0;
  let count = 0;
  let lastLineAt = Date.now();
  try {
    // Of a job that has ended the rest is read in any case: it is all there.
    while (!signal.aborted || job.isFinal) {
      // Asked before the read: what is read after the job's end is all there will be.
      const isLast = job.isFinal;
      const { bytesRead } = await file.read(chunk, 0, chunk.length, position);
      position += bytesRead;
      if (bytesRead > 0) {
        const bytes = Buffer.concat([rest, chunk.subarray(0, bytesRead)]);
        const end = bytes.lastIndexOf(0x0a) + 1;
        rest = bytes.subarray(end);
        if (end === 0) continue;
        const lines = bytes.toString('utf8', 0, end - 1).split('\n');
        const skipped = Math.min(lines.length, Math.max(0, since - count));
        const first = count + skipped + 1;
        count += lines.length;
        lastLineAt = Date.now();
        if (skipped < lines.length) yield { lines: skipped > 0 ? lines.slice(skipped) : lines, first };
        continue;
      }
      if (isLast) {
        if (rest.length > 0 && count >= since) yield { lines: [rest.toString('utf8')], first: count + 1 };
        return;
      }
      const quiet = Date.now() - lastLineAt;
      if (quiet >= silence) {
        lastLineAt = Date.now();
        yield null;
      }
      await changes.next(Math.max(1, silence - quiet));
    }
  } finally {
    changes.close();
  }
}
