import type { ServerResponse } from 'node:http';
import type { Context, Middleware } from 'koa';
import type { Principal } from '../../access/index.js';
import { jobIdPattern, type Route, type RouteName, routes } from '../../contract/index.js';
import type { AuditEntry, AuditLog } from '../audit/index.js';
import { captured } from './parameters.js';

/** What has been sent of an answer's body. */
interface SentBody {
  /** Bytes that were given to the connection. Where it broke, the last of them did not arrive. */
  readonly bytes: number;
  /** Whether the answer was sent to its end over a connection that was still there. */
  readonly isComplete: boolean;
}

/** Follows what is written to an answer from now on. Headers, and what HTTP puts around the pieces of a body, do not count. */
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
  // Node emits this also if the connection broke before. First of the listeners, as another one ends the connection.
  res.prependOnceListener('finish', () => {
    sent.isComplete = !socket.destroyed;
  });
  return sent;
}

/** The event that requests of a route are noted as; null if they are not noted. */
function eventOf(name: RouteName): AuditEntry['event'] | null {
  const route: Route = routes[name];
  if (route.form !== undefined) return 'submission';
  if (name === 'result') return 'download';
  if (name === 'kill') return 'kill';
  if (name === 'remove') return 'removal';
  return name === 'drain' || name === 'undrain' ? 'drain' : null;
}

/** The id of the job that a request is about; null for a text that is none. */
function jobIdIn(ctx: Context): string | null {
  const { job_id: made } = Object(ctx.body) as { job_id?: unknown };
  const id = typeof made === 'string' ? made : captured(ctx);
  return jobIdPattern.test(id) ? id : null;
}

/** Whether an answer has delivered the whole result: all of it was asked for, and sent. */
function hasDelivered({ res }: Context, { bytes, isComplete }: SentBody): boolean {
  if (!isComplete || res.statusCode === 200) return isComplete;
  // A range, of so many bytes: `bytes 0-111/112`.
  const [, whole] = /\/(\d+)$/.exec(String(res.getHeader('Content-Range'))) ?? [];
  return bytes === Number(whole);
}

/**
 * Writes a line for each submission, download, kill and removal that was answered, when its answer is over. The error
 * handler tells of what is refused.
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
        // Before the job is done, and where it failed, there is nothing to download.
        if (statusCode !== 200 && statusCode !== 206) return;
        log.write({ ...about, bytes: sent.bytes, complete: hasDelivered(ctx, sent) });
      } else if (event === 'submission') {
        const received = Number(ctx.get('Content-Length')) || null;
        log.write({ ...about, app: captured(ctx), operation: name ?? null, bytes: received });
      } else if (event === 'drain') {
        log.write({ ...about, job_id: undefined, draining: name === 'drain' });
      } else {
        log.write(about);
      }
    };
    if (ctx.res.closed) write();
    else ctx.res.once('close', write);
  };
}
