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
import type { Job } from '../jobs/job.js';
import { readLog } from '../jobs/log-reader.js';
import type { JobService } from '../jobs/service.js';
import type { StreamSlots } from '../jobs/stream-slots.js';
import { whenGone } from './client-gone.js';
import { EventBytes } from './event-bytes.js';
import { captured } from './path-parameters.js';

export interface LogDeps {
  readonly jobs: JobService;
  readonly slots: StreamSlots;
  /** Milliseconds of silence after which a comment is sent. */
  readonly keepAlive: number;
  /** Aborted when the server stops: streams of jobs that go on end without a marker. */
  readonly closing: AbortSignal;
}

/** How many lines to skip, and whether events carry their number; null is a plain stream from the first line. */
function requestedPosition(ctx: RouterContext): number | null {
  const since = ctx.query[parameters.since.name];
  if (since === undefined) {
    const last = ctx.get(parameters.lastEventId.name).trim();
    return /^\d+$/.test(last) ? Number(last) : null;
  }
  if (typeof since !== 'string' || !lineNumberPattern.test(since)) {
    throw new FieldError(parameters.since.name, `must be a number of lines, got ${quoteName(String(since))}`);
  }
  return Number(since);
}

/** The stream, in pieces of which each is good until the next is asked for. */
async function* events(job: Job, since: number | null, deps: LogDeps, signal: AbortSignal) {
  const bytes = new EventBytes(since === null ? null : since + 1);
  for await (const lines of readLog(job, since ?? 0, deps.keepAlive, signal)) {
    if (lines === null) yield keepAlive;
    else yield* bytes.of(lines);
  }
  if (!job.isFinal) return;
  yield formatEvent(job.state === 'done' ? doneMarker : errorLine(job.record.error ?? job.state));
}

/** Sends a job's stream to its end, or to the client's. */
async function send(ctx: RouterContext, job: Job, since: number | null, deps: LogDeps): Promise<void> {
  const { res } = ctx;
  const release = await deps.slots.take(job.id);
  const gone = new AbortController();
  let proceed = () => {};
  // The slot is free the moment the client is gone, or its reconnect would be refused.
  whenGone(ctx, () => {
    release();
    gone.abort();
    proceed();
  });
  setHeaders(ctx);
  // Koa has nothing to add: what follows is sent, ended or broken off here.
  ctx.respond = false;
  try {
    for await (const piece of events(job, since, deps, AbortSignal.any([gone.signal, deps.closing]))) {
      if (gone.signal.aborted) return;
      // One piece at a time is on its way: there is one buffer, and it is the system's until it is written.
      await new Promise<void>((resolve) => {
        proceed = resolve;
        res.write(piece, () => resolve());
      });
    }
    res.end();
  } catch (cause) {
    // An end would read as that of the log. Behind an answer that is still being sent it waits for its connection.
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
  const job = deps.jobs.get(captured(ctx));
  const since = requestedPosition(ctx);
  if (ctx.method === 'HEAD') setHeaders(ctx);
  else await send(ctx, job, since, deps);
};
