import type { ServerResponse } from 'node:http';
import type { Context, Middleware } from 'koa';
import type { Principal } from '../../access/index.js';
import { jobIdPattern, type Route, type RouteName, routes } from '../../contract/index.js';
import type { AuditEntry, AuditLog } from '../audit/index.js';
import { captured } from './parameters.js';

/** How much of an answer's body was sent. */
interface SentBody {
  /** Bytes that were given to the connection. If it broke, the last of them did not arrive. */
  readonly bytes: number;
  /** Whether the answer was completely sent over a connection that was still open. */
  readonly isComplete: boolean;
}

/** Counts what is written to an answer from now on. Headers, and the framing of a body's pieces, do not count. */
function followBody(res: ServerResponse): SentBody {
  const sent = { bytes: 0, isComplete: false };
  const { write } = res;
  const counted = (...words: Parameters<typeof write>): boolean => {
    const [piece] = words;
    sent.bytes += typeof piece === 'string' ? Buffer.byteLength(piece) : piece.length;
    return Reflect.apply(write, res, words);
  };
  res.write = counted as typeof write;
  const { socket } = res.req;
  // Node emits this even if the connection broke before. Must be the first listener, because another one ends the
  // connection.
  res.prependOnceListener('finish', () => {
    sent.isComplete = !socket.destroyed;
  });
  return sent;
}

/** The event that is recorded for requests of a route; null if they are not recorded. */
function eventOf(name: RouteName): AuditEntry['event'] | null {
  const route: Route = routes[name];
  if (route.form !== undefined) return 'submission';
  if (name === 'result') return 'download';
  if (name === 'kill') return 'kill';
  if (name === 'remove') return 'removal';
  if (name === 'removeUpload') return 'upload-removal';
  return name === 'drain' || name === 'undrain' ? 'drain' : null;
}

/** The id of the job that a request is about; null if the text is not an id. */
function jobIdIn(ctx: Context): string | null {
  const { job_id: made } = Object(ctx.body) as { job_id?: unknown };
  const id = typeof made === 'string' ? made : captured(ctx);
  return jobIdPattern.test(id) ? id : null;
}

/** Whether an answer delivered the whole result: all of it was requested, and all of it was sent. */
function hasDelivered({ res }: Context, { bytes, isComplete }: SentBody): boolean {
  if (!isComplete || res.statusCode === 200) return isComplete;
  // A range of this many bytes: `bytes 0-111/112`.
  const [, whole] = /\/(\d+)$/.exec(String(res.getHeader('Content-Range'))) ?? [];
  return bytes === Number(whole);
}

/**
 * Writes a line for each submission, download, kill and removal, also of an upload, that was answered, when the answer ends. Refusals are
 * recorded by the error handler.
 */
export function auditRequests(log: AuditLog): Middleware {
  return async (ctx, next) => {
    const sent = followBody(ctx.res);
    await next();
    const { _matchedRouteName: name } = ctx as { _matchedRouteName?: RouteName };
    const event = name === undefined || ctx.method === 'HEAD' ? null : eventOf(name);
    const { principal, isRefused } = ctx.state as { principal?: Principal; isRefused?: boolean };
    if (event === null || isRefused || !principal) return;
    const about = {
      event,
      owner: principal.name,
      role: principal.role,
      from: ctx.ip,
      job_id: jobIdIn(ctx),
    };
    const write = () => {
      if (event === 'download') {
        const { statusCode } = ctx.res;
        // Before the job is done, or if it failed, there is nothing to download.
        if (statusCode !== 200 && statusCode !== 206) return;
        log.write({ ...about, bytes: sent.bytes, complete: hasDelivered(ctx, sent) });
      } else if (event === 'submission') {
        const received = Number(ctx.get('Content-Length')) || null;
        log.write({ ...about, app: captured(ctx), operation: name ?? null, bytes: received });
      } else if (event === 'drain') {
        log.write({ ...about, job_id: undefined, draining: name === 'drain' });
      } else if (event === 'upload-removal') {
        log.write({ ...about, job_id: undefined });
      } else {
        log.write(about);
      }
    };
    if (ctx.res.closed) write();
    else ctx.res.once('close', write);
  };
}
