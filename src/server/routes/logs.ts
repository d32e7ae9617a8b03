import type { RouterContext } from '@koa/router';
import { FieldError } from '../../contract/errors.js';
import { mediaTypes, parameters } from '../../contract/http.js';
import {
  doneMarker,
  errorLine,
  formatEvent,
  keepAlive,
  lineNumberPattern,
} from '../../contract/log-stream.js';
import { quoteName } from '../../contract/quote.js';
import { principalOf } from '../http/auth.js';
import { whenGone } from '../http/client-gone.js';
import { captured } from '../http/path-parameters.js';
import type { Job } from '../jobs/job.js';
import { countLines } from '../jobs/log-lines.js';
import { readLog } from '../jobs/log-reader.js';
import type { JobService } from '../jobs/service.js';
import type { StreamSlots } from '../jobs/stream-slots.js';
import { isAskedFor } from './boolean-parameter.js';
import { EventBytes } from './event-bytes.js';

export interface LogDeps {
  readonly jobs: JobService;
  readonly slots: StreamSlots;
  /** Milliseconds of silence after which a comment is sent. */
  readonly keepAlive: number;
  /** Aborted when the server stops: streams of jobs that have not ended close without a marker. */
  readonly closing: AbortSignal;
}

/** What a client asks of a stream. Without a wish it is spec.md's. */
interface Wishes {
  /** The number of lines to skip if the events are to be numbered; null for plain events from the first line. */
  readonly since: number | null;
  /** If that is null: the number of last lines to begin with, numbered as well; null for all of them. */
  readonly tail: number | null;
  /** Whether events say which lines were redrawn. */
  readonly redraws: boolean;
}

/** A number of lines in the query; null if it is not there. */
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
  // A browser opens a stream that broke with the address of the first time, and with the last line that it has.
  const last = ctx.get(parameters.lastEventId.name).trim();
  return lineNumberPattern.test(last) ? Math.max(Number(last), since ?? 0) : since;
}

/** The stream, in pieces. Each piece is valid until the next one is requested. */
async function* events(job: Job, wishes: Wishes, deps: LogDeps, signal: AbortSignal) {
  const { tail, redraws } = wishes;
  const since = wishes.since ?? (tail === null ? null : Math.max(0, (await countLines(job, signal)) - tail));
  const bytes = new EventBytes(since === null ? null : since + 1, redraws);
  for await (const lines of readLog(job, since ?? 0, deps.keepAlive, signal)) {
    if (lines === null) yield keepAlive;
    else yield* bytes.of(lines);
  }
  if (!job.isFinal) return;
  yield formatEvent(job.state === 'done' ? doneMarker : errorLine(job.record.error ?? job.state));
}

/** Sends a job's stream until it ends or the client leaves. */
async function send(ctx: RouterContext, job: Job, wishes: Wishes, deps: LogDeps): Promise<void> {
  const { res } = ctx;
  const release = await deps.slots.take(job.id);
  const gone = new AbortController();
  let proceed = () => {};
  // Frees the slot as soon as the client is gone, so that its reconnect is not refused.
  whenGone(ctx, () => {
    release();
    gone.abort();
    proceed();
  });
  setHeaders(ctx);
  // The answer is sent, ended or reset here, without Koa.
  ctx.respond = false;
  try {
    for await (const piece of events(job, wishes, deps, AbortSignal.any([gone.signal, deps.closing]))) {
      if (gone.signal.aborted) return;
      // Waits for each write: there is one buffer, which must not change before the system has taken it.
      await new Promise<void>((resolve) => {
        proceed = resolve;
        res.write(piece, () => resolve());
      });
    }
    res.end();
  } catch (cause) {
    // A normal end would look like the log's end, so reset the connection. An answer that waits behind another one has no
    // connection yet.
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

/** `GET /jobs/{id}/logs` (spec.md, Events). */
export const streamLogs = (deps: LogDeps) => async (ctx: RouterContext) => {
  const job = deps.jobs.get(captured(ctx), principalOf(ctx));
  const wishes = {
    since: requestedPosition(ctx),
    tail: numberOfLines(ctx, parameters.tail),
    redraws: isAskedFor(ctx, parameters.redraws),
  };
  if (ctx.method === 'HEAD') setHeaders(ctx);
  else await send(ctx, job, wishes, deps);
};
