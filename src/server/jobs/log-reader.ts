import { type FSWatcher, watch } from 'node:fs';
import type { Job } from './job.js';
import { openLog } from './log-lines.js';

/** Bytes that are read at once. Each stream has a buffer of this size. */
const chunkSize = 32 * 1024;
/** Factor by which the buffer grows for a longer line. */
const growth = 4;
/** Milliseconds after which the file is read again without a change event, which network file systems may not send. */
const pollInterval = 1000;

/** Most bytes of a line that are read at once; a runner's lines have at most 64 Ki characters. */
const longestLine = 1024 * 1024;

const lineFeed = 0x0a;

/** Wakes a reader when the file or the job changes, or after a while. */
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
      // The system has no more watches: the file is polled.
      return null;
    }
  }
}

/**
 * Reads a job's log from a position on, and follows it until the job has ended and the last line is read. Nothing is
 * queued: a slow reader only slows itself down. Yields complete lines, which are valid until the next ones are requested.
 * @param since number of lines to skip
 * @param silence milliseconds without a line after which null is yielded, repeatedly
 */
export async function* readLog(
  job: Job,
  since: number,
  silence: number,
  signal: AbortSignal,
): AsyncGenerator<Buffer | null> {
  using file = openLog(job);
  const changes = new ChangeSignal(job, signal);
  const chunk = Buffer.allocUnsafeSlow(chunkSize);
  let buffer = chunk;
  let position = 0;
  let skip = since;
  let lastLineAt = performance.now();
  let isWoken = false;
  try {
    // The log of a job that has ended is complete, so the rest is read in any case.
    while (!signal.aborted || job.isFinal) {
      // Asked before the read: a read after the job's end gets everything.
      const isLast = job.isFinal;
      // Leaves one byte for a line feed.
      const room = buffer.length - 1;
      // What was written a moment ago is in the system's memory: a thread takes longer to begin. Only one read, so that a program that
      // prints all the time leaves time for other requests.
      const bytesRead = isWoken
        ? file.readNow(buffer, room, position)
        : await file.read(buffer, room, position);
      isWoken = false;
      // An incomplete line is not kept; it is read again when it is complete.
      let end = buffer.subarray(0, bytesRead).lastIndexOf(lineFeed) + 1;
      if (end === 0 && bytesRead === room && room < longestLine) {
        buffer = Buffer.allocUnsafeSlow(buffer.length * growth);
        continue;
      }
      // A line that no runner writes, too long or without an end, is passed on in parts.
      const isPart = bytesRead === room || (isLast && bytesRead > 0);
      if (end === 0 && isPart) end = buffer.writeUInt8(lineFeed, bytesRead);
      if (end > 0) {
        position += Math.min(end, bytesRead);
        lastLineAt = performance.now();
        let start = 0;
        for (; skip > 0 && start < end; skip -= 1) start = buffer.indexOf(lineFeed, start) + 1;
        if (start < end) yield buffer.subarray(start, end);
        buffer = chunk;
        // A read that did not fill the buffer got all that there was.
        if (isLast || bytesRead === room) continue;
      } else if (isLast) {
        return;
      }
      const quiet = performance.now() - lastLineAt;
      if (quiet >= silence) {
        lastLineAt = performance.now();
        yield null;
      }
      await changes.next(Math.max(1, silence - quiet));
      isWoken = true;
    }
  } finally {
    changes.close();
  }
}
