import { Readable } from 'node:stream';
import type { RouterContext } from '@koa/router';
import { FieldError } from '../../contract/errors.js';
import { doneMarker, errorLine, formatEvent, keepAlive, shieldLine } from '../../contract/log-stream.js';
import type { Job } from '../jobs/job.js';
import { readLog } from '../jobs/log-reader.js';
import type { JobService } from '../jobs/service.js';
import type { StreamSlots } from '../jobs/streams.js';
import { captured } from './captures.js';
import { whenGone } from './when-gone.js';

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
  const { since } = ctx.query;
  if (since === undefined) {
    const last = ctx.get('Last-Event-ID').trim();
    return /^\d+$/.test(last) ? Number(last) : null;
  }
  if (typeof since !== 'string' || !/^\d{1,15}$/.test(since)) {
    throw new FieldError('since', `must be a number of lines, got '${since}'`);
  }
  return Number(since);
}

/** The stream's text. Thousands of lines leave in one piece where the log has them. */
async function* events(job: Job, since: number | null, deps: LogDeps, signal: AbortSignal) {
  for await (const batch of readLog(job, since ?? 0, deps.keepAlive, signal)) {
    if (batch === null) {
      yield keepAlive;
      continue;
    }
    const { lines, first } = batch;
    const id = (index: number) => (since === null ? undefined : first + index);
    yield lines.map((line, index) => formatEvent(shieldLine(line), id(index))).join('');
  }
  if (!job.isFinal) return;
  yield formatEvent(job.state === 'done' ? doneMarker : errorLine(job.record.error ?? job.state));
}

/** `GET /jobs/{id}/logs` (spec.md, Events). */
export const streamLogs = (deps: LogDeps) => async (ctx: RouterContext) => {
  const job = deps.jobs.get(captured(ctx));
  const since = requestedPosition(ctx);
  if (ctx.method !== 'HEAD') {
    const release = await deps.slots.take(job.id);
    const gone = new AbortController();
    // The slot is free the moment the client is gone, or its reconnect would be refused.
    whenGone(ctx, () => {
      release();
      gone.abort();
    });
    const signal = AbortSignal.any([gone.signal, deps.closing]);
    ctx.body = Readable.from(events(job, since, deps, signal), { objectMode: false, highWaterMark: 1 << 20 });
  }
  ctx.status = 200;
  ctx.type = 'text/event-stream';
  ctx.set('Cache-Control', 'no-cache, no-transform');
  ctx.set('X-Accel-Buffering', 'no');
  ctx.flushHeaders();
};
