import { pipeline } from 'node:stream/promises';
import type { RouterContext } from '@koa/router';
import {
  doneMarker,
  errorMarker,
  FieldError,
  idField,
  keepAlive,
  lineNumberPattern,
  mediaTypes,
  parameters,
  quoteName,
  redrawEnd,
  redrawField,
  ServiceError,
} from '../../contract/index.js';
import { captured, goneSignal, isAskedFor, principalOf, whenGone } from '../http/index.js';
import { countLines, type Job, type JobService, openLog, readLog, type StreamSlots } from '../jobs/index.js';

/** Number of bytes of a log that are read at once for an answer as text. */
const chunkSize = 256 * 1024;

/** A stream is closed if its reader accepts no data for this many keep-alive intervals: a minute. */
const readerPatience = 4;

export interface LogDeps {
  readonly jobs: JobService;
  readonly slots: StreamSlots;
  /** Milliseconds of silence after which a comment is sent. */
  readonly keepAlive: number;
  /** Aborted when the server stops: the streams of unfinished jobs then close without a marker. */
  readonly closing: AbortSignal;
}

/** What a client requests for a stream beyond the plain log. */
interface StreamOptions {
  /** Number of lines to skip, in a stream of numbered events; null for plain events from the first line on. */
  readonly since: number | null;
  /** If `since` is null: number of last lines to start with, also numbered; null for all lines. */
  readonly tail: number | null;
  /** Whether events say which lines are redraws. */
  readonly redraws: boolean;
}

/** A number of lines in the query; null if it is missing. */
function numberOfLines(ctx: RouterContext, { name }: { readonly name: string }): number | null {
  const text = ctx.query[name];
  if (text === undefined) return null;
  if (typeof text !== 'string' || !lineNumberPattern.test(text)) {
    throw new FieldError(name, `must be a number of lines, got ${quoteName(String(text))}`);
  }
  return Number(text);
}

function requestedPosition(ctx: RouterContext): number | null {
  const since = numberOfLines(ctx, parameters.since);
  // When a browser reopens a broken stream, it sends the original URL again, with the number of the last line that it received.
  const last = ctx.get(parameters.lastEventId.name).trim();
  return lineNumberPattern.test(last) ? Math.max(Number(last), since ?? 0) : since;
}

/**
 * Characters other than a line feed that some readers treat as the end of a line, as Python's `splitlines` does. To such a
 * reader the text after one could look like another field, or like the end of the stream.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is replaced
const otherLineEnds = /[\v\f\r\x1c-\x1e\x85]/g;
const separators = /[\u2028\u2029]/g;

/** A line of text as an event. */
const formatEvent = (line: string): string => `data: ${line}\n\n`;

/** All line ends, including the line feed and the separators. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is replaced
const allLineEnds = /[\n-\r\u001c-\u001e\u0085\u2028\u2029]+/g;

/** The final marker of a failed or killed job, with `message` on one line. */
const errorLine = (message: string): string => `${errorMarker} ${message.replace(allLineEnds, ' ')}`;

/** One line of a log as an event. @param number null for an event without `id:` */
function lineEvent(line: string, number: number | null, redraws: boolean): string {
  const isRedraw = line.endsWith(redrawEnd);
  const text = (isRedraw ? line.slice(0, -redrawEnd.length) : line)
    .replace(otherLineEnds, ' ')
    .replace(separators, '\ufffd');
  // A line of the app that looks like a marker must not end the stream.
  const isMarker = text === doneMarker || text.startsWith(errorMarker);
  const id = number === null ? '' : `${idField}${number}\n`;
  const redraw = isRedraw && redraws ? `${redrawField}\n` : '';
  return id + redraw + formatEvent(isMarker ? ` ${text}` : text);
}

/** Yields the stream in pieces. */
async function* events(job: Job, options: StreamOptions, deps: LogDeps, signal: AbortSignal) {
  const { tail, redraws } = options;
  const since = options.since ?? (tail === null ? null : Math.max(0, (await countLines(job, signal)) - tail));
  const isNumbered = since !== null;
  let number = (since ?? 0) + 1;
  const eventOf = (line: string) => lineEvent(line, isNumbered ? number++ : null, redraws);
  for await (const piece of readLog(job, since ?? 0, deps.keepAlive, signal)) {
    if (piece.kind === 'silence') yield keepAlive;
    else if (piece.kind === 'place') yield lineEvent(String(piece.line).trimEnd(), null, redraws);
    else if (piece.kind === 'placeKept') number += 1;
    else yield String(piece.lines).split('\n').slice(0, -1).map(eventOf).join('');
  }
  if (!job.isFinal) return;
  yield formatEvent(job.state === 'done' ? doneMarker : errorLine(job.record.error ?? job.state));
}

/** Sends a job's stream until it ends or the client leaves. */
async function send(ctx: RouterContext, job: Job, options: StreamOptions, deps: LogDeps): Promise<void> {
  const { res } = ctx;
  const release = await deps.slots.take(job.id, principalOf(ctx).name);
  const gone = new AbortController();
  let proceed = () => {};
  // Frees the slot as soon as the client is gone, so that it can reconnect.
  whenGone(ctx, () => {
    release();
    gone.abort();
    proceed();
  });
  setHeaders(ctx);
  // From here on, the answer is sent, ended or reset without Koa.
  ctx.respond = false;
  try {
    for await (const piece of events(job, options, deps, AbortSignal.any([gone.signal, deps.closing]))) {
      if (gone.signal.aborted) return;
      // Waits for each write, so that nothing is queued for a slow reader.
      await new Promise<void>((resolve) => {
        proceed = resolve;
        const stalled = setTimeout(() => res.socket?.destroy(), readerPatience * deps.keepAlive).unref();
        res.write(piece, () => {
          clearTimeout(stalled);
          resolve();
        });
      });
    }
    res.end();
  } catch (cause) {
    // A normal end would look like the end of the log, so the connection is reset. A pipelined answer has no connection
    // until its turn comes.
    if (res.socket) res.socket.destroy();
    else res.once('socket', (socket) => socket.destroy());
    throw cause;
  }
}

function setHeaders(ctx: RouterContext): void {
  ctx.status = 200;
  ctx.type = mediaTypes.events;
  ctx.set('Cache-Control', 'no-cache, no-transform');
  ctx.set('X-Accel-Buffering', 'no');
  ctx.flushHeaders();
}

/** `GET /jobs/{id}/logs` (docs/http.md, Log). */
export const streamLogs = (deps: LogDeps) => async (ctx: RouterContext) => {
  const job = deps.jobs.get(captured(ctx), principalOf(ctx));
  const options = {
    since: requestedPosition(ctx),
    tail: numberOfLines(ctx, parameters.tail),
    redraws: isAskedFor(ctx, parameters.redraws),
  };
  if (ctx.method === 'HEAD') setHeaders(ctx);
  else await send(ctx, job, options, deps);
};

/**
 * The requested range of a log of this size, excluding the byte at `to`; null for the whole log, which also answers a request for
 * several ranges.
 */
function askedBytes(ctx: RouterContext, size: number): { from: number; to: number } | null {
  const [, first = '', last = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(ctx.get('Range').trim()) ?? [];
  // With If-Range, the whole log is sent, because a log has no tag.
  if (first + last === '' || ctx.get('If-Range') !== '') return null;
  if (first === '') return { from: Math.max(0, size - Number(last)), to: size };
  if (last === '') return { from: Number(first), to: size };
  return Number(last) < Number(first) ? null : { from: Number(first), to: Math.min(Number(last) + 1, size) };
}

/** Yields the bytes of a log from one position to another. */
async function* bytesOf(job: Job, from: number, to: number) {
  using file = openLog(job);
  for (let position = from; position < to; ) {
    const buffer = Buffer.allocUnsafe(Math.min(chunkSize, to - position));
    const length = await file.read(buffer, buffer.length, position);
    if (length === 0) throw new Error(`The log of job ${job.id} became shorter while it was sent`);
    position += length;
    yield buffer.subarray(0, length);
  }
}

/** `GET /jobs/{id}/log`: the log so far, as text. Does not count as a stream. */
export const sendLog = (jobs: JobService) => async (ctx: RouterContext) => {
  const job = jobs.get(captured(ctx), principalOf(ctx));
  const size = sizeOf(job);
  const asked = askedBytes(ctx, size);
  const { from, to } = asked ?? { from: 0, to: size };
  if (asked && from >= to) {
    ctx.set('Content-Range', `bytes */${size}`);
    throw new ServiceError('noSuchRange', `The log has ${size} bytes so far; ask for a range of these`);
  }
  ctx.status = asked ? 206 : 200;
  if (asked) ctx.set('Content-Range', `bytes ${from}-${to - 1}/${size}`);
  ctx.type = `${mediaTypes.text}; charset=utf-8`;
  ctx.length = to - from;
  ctx.set('Accept-Ranges', 'bytes');
  ctx.set('Cache-Control', 'no-store');
  if (ctx.method === 'HEAD') return;
  // Sent without Koa, which would leave the connection open if the answer fails.
  ctx.respond = false;
  const signal = goneSignal(ctx);
  await pipeline(bytesOf(job, from, to), ctx.res, { signal }).catch((cause) => {
    if (!signal.aborted) throw cause;
  });
};

function sizeOf(job: Job): number {
  using file = openLog(job);
  return file.size;
}
