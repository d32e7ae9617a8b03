import { errorKinds, exitCodes, isFinal, logTextPath, mediaTypes, redrawEnd } from '../../contract/index.js';
import { type Connection, header, job, type Patience, pause, type Reply } from '../connection/index.js';
import {
  ClientError,
  HttpError,
  isOfAnother,
  isServerFailure,
  isTransient,
  TransportError,
} from '../errors.js';
import { type LogEvent, maxLine } from './stream-parser.js';

/**
 * Logs from a server that neither numbers lines nor replays them, such as KonfAI's: readers empty a queue, so a second stream
 * gets only what the first one left. How the job ended must be requested separately.
 */

/** Number of consecutive streams cut before anything arrives, after which another reader is assumed to be the cause. */
export const muteStreams = 2;

/** How a job ended, according to its state; null if it has not ended. */
export async function endByState(connection: Connection, jobId: string): Promise<LogEvent | null> {
  const view = await job(connection, jobId);
  if (!isFinal(view.status)) return null;
  if (view.status === 'done') return { kind: 'done' };
  return { kind: 'error', message: view.error ?? `the job is ${view.status}` };
}

/**
 * The outcome of a job whose log only says that it has ended. The marker may have been left by an earlier reader of a failed job.
 * @returns null if the server does not say
 * @throws an error after which the server may be asked again
 */
export async function checkedEnd(connection: Connection, jobId: string): Promise<LogEvent | null> {
  try {
    return await endByState(connection, jobId);
  } catch (error) {
    connection.signal?.throwIfAborted();
    if (isTransient(error)) throw error;
    return null;
  }
}

/** The error for a log that another program is reading. KonfAI's server cuts a job's second stream; remote-app refuses it. */
export const readAlready = (connection: Connection, jobId: string): ClientError =>
  new ClientError(
    `The log of job ${jobId} is already being read, and ${connection.server} allows one reader at a time; ` +
      `'${connection.nextCommand(`status ${jobId}`)}' shows the state of the job, '${connection.nextCommand(`result ${jobId}`)}' waits for its result`,
    exitCodes.busy,
    { job_id: jobId },
  );

/**
 * Why streams are cut before anything arrives: the end of a job that has ended, or the error for a log that another program is
 * reading; null while the server is unreachable.
 * @throws HttpError if the server does not know the job
 */
export async function explainMute(
  connection: Connection,
  jobId: string,
): Promise<LogEvent | ClientError | null> {
  try {
    return (await endByState(connection, jobId)) ?? readAlready(connection, jobId);
  } catch (error) {
    connection.signal?.throwIfAborted();
    if (isTransient(error)) return null;
    throw error;
  }
}

/** Milliseconds between two requests for what is new. */
const interval = 1000;

const lineFeed = 0x0a;

/** The server has no route for a log as text, like KonfAI's. */
export class NoLogText extends Error {
  override readonly name = 'NoLogText';
}

/** A log read as text; each call continues where the last one stopped. */
class LogText {
  /** Number of bytes of the lines read so far. */
  #offset = 0;

  constructor(
    private readonly connection: Connection,
    private readonly jobId: string,
  ) {}

  /**
   * The new lines.
   * @param isWhole whether the log is complete, so that the last line may lack a line end
   * @throws NoLogText
   */
  async *newLines(isWhole: boolean): AsyncGenerator<string> {
    const { connection, jobId } = this;
    const path = logTextPath(jobId);
    // Starts at the last known byte, because a range must contain at least one existing byte.
    const from = Math.max(0, this.#offset - 1);
    const headers = { accept: mediaTypes.text, ...(from > 0 && { range: `bytes=${from}-` }) };
    const reply = await connection.send(path, { headers });
    if (![200, 206].includes(reply.statusCode)) {
      const refusal = await connection.refused(reply, path);
      throw isOfAnother(reply.statusCode) ? new NoLogText(refusal.message) : refusal;
    }
    if (!header(reply, 'content-type')?.startsWith(mediaTypes.text)) {
      await reply.body.dump().catch(() => null);
      throw new NoLogText(`${path} is not a text`);
    }
    let skip = this.#offset - startOf(reply, from);
    let rest: Buffer = Buffer.alloc(0);
    try {
      for await (const chunk of reply.body as AsyncIterable<Buffer>) {
        rest = Buffer.concat([rest, chunk.subarray(skip)]);
        skip = Math.max(0, skip - chunk.length);
        for (let end = lineEnd(rest); end > 0; end = lineEnd(rest)) {
          this.#offset += end;
          yield rest.toString('utf8', 0, rest[end - 1] === lineFeed ? end - 1 : end);
          rest = rest.subarray(end);
        }
      }
    } catch (error) {
      throw connection.explain(error);
    }
    if (isWhole && rest.length > 0) yield rest.toString();
  }
}

/** Where the first line ends in these bytes; 0 if its end has not arrived. An overlong line ends at the last byte. */
function lineEnd(bytes: Buffer): number {
  const end = bytes.indexOf(lineFeed) + 1;
  return end === 0 && bytes.length >= maxLine ? bytes.length : end;
}

/**
 * The offset of an answer's first byte within the log. @param from the requested offset @throws TransportError if another part
 * was sent
 */
function startOf(reply: Reply, from: number): number {
  if (reply.statusCode === 200) return 0;
  if (header(reply, 'content-range')?.startsWith(`bytes ${from}-`)) return from;
  throw new TransportError('broken', 'The server sent a different part of the log than requested');
}

/** Whether a stream was refused because another reader has the only one, or too many are open. */
export const isTaken = (error: unknown): error is HttpError =>
  error instanceof HttpError && error.status === errorKinds.streamOpen.status && !error.isOfProxy;

/**
 * Reads a job's log until the job ends, without a stream: the text is requested repeatedly.
 * @param since lines to skip
 * @param tail alternatively, the number of last lines to start with
 * @throws NoLogText immediately if the server has no such route; otherwise as `followLog`
 */
export async function* followText(
  connection: Connection,
  jobId: string,
  { since, tail, patience }: { since: number; tail: number | undefined; patience: Patience },
): AsyncGenerator<LogEvent> {
  const text = new LogText(connection, jobId);
  let number = 0;
  let last: LogEvent[] | null = tail === undefined ? null : [];
  for (;;) {
    try {
      // Requested before the text, so that text read after the job's end is complete.
      const end = await endByState(connection, jobId);
      for await (const raw of text.newLines(end !== null)) {
        number += 1;
        const isRedraw = raw.endsWith(redrawEnd);
        const line = isRedraw ? raw.slice(0, -1) : raw;
        const event: LogEvent = { kind: 'line', line, id: number, isRedraw };
        if (last === null && number > since) yield event;
        if (last !== null && last.push(event) > (tail ?? 0)) last.shift();
      }
      yield* last ?? [];
      last = null;
      patience.renew();
      if (end) {
        yield end;
        return;
      }
    } catch (error) {
      if (!isTransient(error) && !isServerFailure(error)) throw error;
      await patience.after(error as Error);
      continue;
    }
    await pause(interval, connection.signal);
  }
}
