import { closeSync, constants, fstatSync, read as readCallback, readSync } from 'node:fs';
import { promisify } from 'node:util';
import { servicePrefix } from '../../contract/log-stream.js';
import { errorCode, isForbidden } from '../../files/error-code.js';
import { NotOurFile, openOwnFile } from '../../files/own-file.js';
import type { Job } from './job.js';

/** Bytes that are counted through at once. */
const chunkSize = 256 * 1024;

const lineFeed = 0x0a;

const read = promisify(readCallback);

/** A line that is sent instead of a log. */
const lineFor = (problem: string): Buffer =>
  Buffer.from(`${servicePrefix}The log of this job ${problem}: it cannot be shown\n`);

/** For a log that a job has removed, or replaced by a link. */
const missingLog = lineFor('was removed or replaced');

/** For one that a job has closed to the server, by itself or with its directory. */
const closedLog = lineFor('may not be opened by the server');

/**
 * The line that explains why a log cannot be opened.
 * @throws what was thrown, if that may pass
 */
function explain(cause: unknown): Buffer {
  if (isForbidden(cause)) return closedLog;
  if (cause instanceof NotOurFile || errorCode(cause) === 'ENOENT') return missingLog;
  throw cause;
}

/** An open log. */
export interface OpenLog extends Disposable {
  /** Bytes that it had when it was opened. */
  readonly size: number;
  /** Reads into a buffer from a position on. Returns the number of bytes. */
  read(buffer: Buffer, length: number, position: number): Promise<number>;
  /** The same while nothing else is done. */
  readNow(buffer: Buffer, length: number, position: number): number;
}

/** Text in place of a log. */
function textAsLog(text: Buffer): OpenLog {
  const readNow: OpenLog['readNow'] = (buffer, length, position) =>
    text.copy(buffer, 0, Math.min(position, text.length), position + length);
  return {
    size: text.length,
    read: async (...args) => readNow(...args),
    readNow,
    [Symbol.dispose]: () => {},
  };
}

/** Opens the log of a job for reading. One that cannot be opened is replaced by a line that says why. */
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
    readNow: (buffer, length, position) => readSync(descriptor, buffer, 0, length, position),
    [Symbol.dispose]: () => closeSync(descriptor),
  };
}

/** The number of complete lines that a job's log has now; fewer if the signal is aborted meanwhile. */
export async function countLines(job: Job, signal: AbortSignal): Promise<number> {
  using file = openLog(job);
  const buffer = Buffer.allocUnsafeSlow(chunkSize);
  let lines = 0;
  for (let position = 0; ; ) {
    const length = await file.read(buffer, buffer.length, position);
    if (length === 0 || signal.aborted) return lines;
    position += length;
    const bytes = buffer.subarray(0, length);
    for (let at = bytes.indexOf(lineFeed); at >= 0; at = bytes.indexOf(lineFeed, at + 1)) lines += 1;
  }
}
