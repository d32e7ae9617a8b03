import { closeSync, constants, type FSWatcher, fstatSync, read as readCallback, watch } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { type Owner, ownerInWords } from '../../access/index.js';
import { ServiceError, servicePrefix } from '../../contract/index.js';
import { deferred, errorCode, isForbidden, NotOurFile, openOwnFile } from '../../files/index.js';
import type { Job } from './job.js';

/** Number of bytes read at once when lines are counted. */
const countedAtOnce = 256 * 1024;

const lineFeed = 0x0a;

const read = promisify(readCallback);

/** The line that is sent in place of a log. */
const lineFor = (problem: string): Buffer =>
  Buffer.from(`${servicePrefix}The log of this job ${problem}: it cannot be shown\n`);

/** For a log that a job has removed or replaced by a link. */
const missingLog = lineFor('was removed or replaced');

/** For a log that can no longer be read because the job changed its permissions, or those of its directory. */
const closedLog = lineFor('may not be opened by the server');

/**
 * The line that explains why a log cannot be opened.
 * @throws the given error, if it may be temporary
 */
function explain(cause: unknown): Buffer {
  if (isForbidden(cause)) return closedLog;
  if (cause instanceof NotOurFile || errorCode(cause) === 'ENOENT') return missingLog;
  throw cause;
}

/** An open log. */
export interface OpenLog extends Disposable {
  /** Its size when it was opened, in bytes. */
  readonly size: number;
  /** Reads into a buffer from a position. Returns the number of bytes. */
  read(buffer: Buffer, length: number, position: number): Promise<number>;
}

/** Presents a text as an open log. */
const textAsLog = (text: Buffer): OpenLog => ({
  size: text.length,
  read: async (buffer, length, position) =>
    text.copy(buffer, 0, Math.min(position, text.length), position + length),
  [Symbol.dispose]: () => {},
});

/** Opens the log of a job for reading. If that fails, a line that says why takes the place of the log. */
export function openLog(job: Job): OpenLog {
  let descriptor: number;
  try {
    descriptor = openOwnFile(job.directory.logFile, constants.O_RDONLY);
  } catch (cause) {
    return textAsLog(explain(cause));
  }
  return {
    size: fstatSync(descriptor).size,
    read: async (buffer, length, position) => (await read(descriptor, buffer, 0, length, position)).bytesRead,
    [Symbol.dispose]: () => closeSync(descriptor),
  };
}

/** The number of complete lines in a job's log; fewer if the signal is aborted. */
export async function countLines(job: Job, signal: AbortSignal): Promise<number> {
  using file = openLog(job);
  const buffer = Buffer.allocUnsafeSlow(countedAtOnce);
  let lines = 0;
  for (let position = 0; ; ) {
    const length = await file.read(buffer, buffer.length, position);
    if (length === 0 || signal.aborted) return lines;
    position += length;
    const bytes = buffer.subarray(0, length);
    for (let at = bytes.indexOf(lineFeed); at >= 0; at = bytes.indexOf(lineFeed, at + 1)) lines += 1;
  }
}

/** Bytes that are read at once. Each stream has a buffer of this size. */
const chunkSize = 32 * 1024;
/** Factor by which the buffer grows for a longer line. */
const growth = 4;
/**
 * Milliseconds after which the file is read again without a change event, because network file systems may not send any.
 */
const pollInterval = 1000;

/** The longest line, in bytes, that is read in one piece; a runner's lines have at most 64 Ki characters. */
const maxLineBytes = 1024 * 1024;

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

  /** Resolves at the next change, or at once if there was one since the previous call. */
  async next(timeout: number): Promise<void> {
    if (!this.#changed) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(timeout, pollInterval));
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
      // The system allows no more watches, so the file is polled.
      return null;
    }
  }
}

/** What a reader of a log gets. */
export type LogPiece =
  /** Complete lines of the file, valid until the next piece is requested. */
  | { readonly kind: 'lines'; readonly lines: Buffer }
  /** A line that only streams have: the position of the job in the queue. The next such line replaces it. */
  | { readonly kind: 'place'; readonly line: Buffer }
  /** The log file now contains the last position that was sent, so that position is not sent again. */
  | { readonly kind: 'placeKept' }
  | { readonly kind: 'silence' };

/**
 * Reads a job's log from a position on, and follows it until the job has ended and the last line is read. Nothing is queued: a
 * slow reader only slows itself down.
 * @param since number of lines to skip
 * @param silence milliseconds without a line after which a `silence` piece is sent, repeatedly
 */
export async function* readLog(
  job: Job,
  since: number,
  silence: number,
  signal: AbortSignal,
): AsyncGenerator<LogPiece> {
  using file = openLog(job);
  const changes = new ChangeSignal(job, signal);
  const chunk = Buffer.allocUnsafeSlow(chunkSize);
  let buffer = chunk;
  let position = 0;
  let skip = since;
  let lastLineAt = performance.now();
  let place: Buffer | null = null;
  try {
    // The log of a job that has ended is complete, so the rest is read in any case.
    while (!signal.aborted || job.isFinal) {
      // Checked before the read, because a read after the job's end gets everything.
      const isLast = job.isFinal;
      // Leaves one byte for a line feed.
      const space = buffer.length - 1;
      const bytesRead = await file.read(buffer, space, position);
      // An incomplete line is not kept; it is read again when it is complete.
      let end = buffer.subarray(0, bytesRead).lastIndexOf(lineFeed) + 1;
      if (end === 0 && bytesRead === space && space < maxLineBytes) {
        buffer = Buffer.allocUnsafeSlow(buffer.length * growth);
        continue;
      }
      // A line that no runner writes, because it is too long or has no end, is passed on in parts.
      const isPart = bytesRead === space || (isLast && bytesRead > 0);
      if (end === 0 && isPart) end = buffer.writeUInt8(lineFeed, bytesRead);
      if (end > 0) {
        position += Math.min(end, bytesRead);
        lastLineAt = performance.now();
        let start = 0;
        for (; skip > 0 && start < end; skip -= 1) start = buffer.indexOf(lineFeed, start) + 1;
        if (place !== null && start < end) {
          const afterPlace = start + place.length;
          const isKept = place.equals(buffer.subarray(start, afterPlace));
          place = null;
          if (isKept) {
            start = afterPlace;
            yield { kind: 'placeKept' };
          }
        }
        if (start < end) yield { kind: 'lines', lines: buffer.subarray(start, end) };
        buffer = chunk;
        // A read that did not fill the buffer has reached the end of the file.
        if (isLast || bytesRead === space) continue;
      } else if (isLast) {
        return;
      }
      const unlogged = job.unloggedPlace;
      if (unlogged !== null && !place?.equals(unlogged)) {
        place = unlogged;
        lastLineAt = performance.now();
        yield { kind: 'place', line: Buffer.from(unlogged) };
        continue;
      }
      const quiet = performance.now() - lastLineAt;
      if (quiet >= silence) {
        lastLineAt = performance.now();
        yield { kind: 'silence' };
      }
      await changes.next(Math.max(1, silence - quiet));
    }
  } finally {
    changes.close();
  }
}

/** Milliseconds to wait for the end of an earlier connection, because a client may reconnect before that is noticed. */
const noticeTime = 300;

interface Held {
  readonly owner: Owner;
  readonly released: Promise<void>;
}

/** Counts open log streams: at most one per job, a share of them per named owner, and `limit` in total (docs/http.md, Log). */
export class StreamSlots {
  readonly #held = new Map<string, Held>();

  /** @param share how many a named owner may have at once */
  constructor(
    private readonly limit: number,
    private readonly share: number,
  ) {}

  /** Number of open streams. */
  get open(): number {
    return this.#held.size;
  }

  /**
   * Takes the slot of a job.
   * @param owner who reads it
   * @returns a function that releases it, which may be called more than once
   * @throws ServiceError `streamOpen` or `tooManyStreams`
   */
  async take(jobId: string, owner: Owner): Promise<() => void> {
    const holder = this.#held.get(jobId);
    if (holder) await Promise.race([holder.released, delay(noticeTime)]);
    if (this.#held.has(jobId)) {
      throw new ServiceError(
        'streamOpen',
        `The log of job ${jobId} is being streamed already; close that stream first, or read what there is at /jobs/${jobId}/log`,
      );
    }
    if (this.#held.size >= this.limit) {
      const detail = `${this.limit} log streams are open, the most there may be; try again soon`;
      throw new ServiceError('tooManyStreams', detail);
    }
    // Without named tokens everybody has the same owner.
    const own = [...this.#held.values()].filter((each) => each.owner === owner).length;
    if (owner !== null && own >= this.share) {
      throw new ServiceError(
        'tooManyStreams',
        `${this.share} log streams of ${ownerInWords(owner)} are open, the most that one may have; try again soon`,
      );
    }
    return this.#hold(jobId, owner);
  }

  #hold(jobId: string, owner: Owner): () => void {
    const { promise: released, resolve: settle } = deferred<void>();
    const held: Held = { owner, released };
    this.#held.set(jobId, held);
    return () => {
      if (this.#held.get(jobId) === held) this.#held.delete(jobId);
      settle();
    };
  }
}
