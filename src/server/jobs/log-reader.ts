import { closeSync, constants, type FSWatcher, read as readCallback, watch } from 'node:fs';
import { promisify } from 'node:util';
import { servicePrefix } from '../../contract/log-stream.js';
import { errorCode } from '../../files/error-code.js';
import { NotOurFile, openOwnFile } from '../../files/own-file.js';
import type { Job } from './job.js';

/** Bytes read, and so lines handed on, at once. It is held as often as there are streams. */
const chunkSize = 32 * 1024;
/** By how much a reader's room grows for a line that is longer. */
const growth = 4;
/** Milliseconds after which the file is looked at again though nothing told of a change (a network file system). */
const pollInterval = 1000;

/** Bytes of a line that are read at once at most; a runner's lines have 64 Ki characters. */
const longestLine = 1024 * 1024;

const lineFeed = 0x0a;

const read = promisify(readCallback);

/** What stands for a log that a job removed, or replaced by a link. */
const missingLog = Buffer.from(
  `${servicePrefix}The log of this job was removed or replaced: it cannot be shown\n`,
);

/** A log that is open. */
interface OpenLog extends Disposable {
  /** Fills a buffer as far as there are bytes from this position on; returns how many there were. */
  read(buffer: Buffer, length: number, position: number): Promise<number>;
}

function openLog(job: Job): OpenLog {
  let descriptor: number;
  try {
    descriptor = openOwnFile(job.directory.logFile, constants.O_RDONLY);
  } catch (cause) {
    if (!(cause instanceof NotOurFile) && errorCode(cause) !== 'ENOENT') throw cause;
    return {
      read: async (buffer, length, position) =>
        missingLog.copy(buffer, 0, Math.min(position, missingLog.length), position + length),
      [Symbol.dispose]: () => {},
    };
  }
  return {
    read: async (buffer, length, position) => (await read(descriptor, buffer, 0, length, position)).bytesRead,
    [Symbol.dispose]: () => closeSync(descriptor),
  };
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
 * is the log: nothing is queued, a slow reader slows itself. Yields whole lines, good until the next are asked for.
 * @param since how many lines to skip
 * @param silence milliseconds without a line after which null is yielded, again and again
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
  try {
    // Of a job that has ended the rest is read in any case: it is all there.
    while (!signal.aborted || job.isFinal) {
      // Asked before the read: what is read after the job's end is all there will be.
      const isLast = job.isFinal;
      // One byte is left for a line feed.
      const room = buffer.length - 1;
      const bytesRead = await file.read(buffer, room, position);
      // Half a line is not kept but read again, whole.
      let end = buffer.subarray(0, bytesRead).lastIndexOf(lineFeed) + 1;
      if (end === 0 && bytesRead === room && room < longestLine) {
        buffer = Buffer.allocUnsafeSlow(buffer.length * growth);
        continue;
      }
      // No runner writes so long a line, nor half a one at the end: it is passed on in parts.
      const isPart = bytesRead === room || (isLast && bytesRead > 0);
      if (end === 0 && isPart) end = buffer.writeUInt8(lineFeed, bytesRead);
      if (end > 0) {
        position += Math.min(end, bytesRead);
        lastLineAt = performance.now();
        let start = 0;
        for (; skip > 0 && start < end; skip -= 1) start = buffer.indexOf(lineFeed, start) + 1;
        if (start < end) yield buffer.subarray(start, end);
        buffer = chunk;
        continue;
      }
      if (isLast) return;
      const quiet = performance.now() - lastLineAt;
      if (quiet >= silence) {
        lastLineAt = performance.now();
        yield null;
      }
      await changes.next(Math.max(1, silence - quiet));
    }
  } finally {
    changes.close();
  }
}
