import type { Context, Middleware } from 'koa';
import type { Principal } from '../../access/index.js';
import { jobIdPattern, parameters, type Route, type RouteName, routes } from '../../contract/index.js';
import type { AuditEntry, AuditLog } from '../audit/index.js';
import type { PatientResponse } from './http-server.js';
import { captured, queryText } from './parameters.js';

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

/**
 * Whether an answer delivered the whole result: all of it was requested, and all of it was sent. `bytes` is the number that were
 * sent.
 */
function hasDelivered({ res }: Context, bytes: number, isSent: boolean): boolean {
  if (!isSent || res.statusCode === 200) return isSent;
  // The total size in `bytes 0-111/112`.
  const [, whole] = /\/(\d+)$/.exec(String(res.getHeader('Content-Range'))) ?? [];
  return bytes === Number(whole);
}

/**
 * Middleware that writes a line for each submission, download, kill and removal (also of uploads) when its answer ends. Refusals
 * are recorded by the error handler.
 */
export function auditRequests(log: AuditLog): Middleware {
  return async (ctx, next) => {
    let isSent = false;
    const { socket } = ctx.req;
    // Node emits this event even if the connection broke earlier. This must be the first listener, because another one ends the
    // connection.
    ctx.res.prependOnceListener('finish', () => {
      isSent = !socket.destroyed;
    });
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
        // While the job is not done, or if it failed, there is nothing to download.
        if (statusCode !== 200 && statusCode !== 206) return;
        const bytes = (ctx.res as PatientResponse).bodyBytes;
        log.write({ ...about, bytes, complete: hasDelivered(ctx, bytes, isSent) });
      } else if (event === 'submission') {
        const received = Number(ctx.get('Content-Length')) || null;
        log.write({ ...about, app: captured(ctx), operation: name ?? null, bytes: received });
      } else if (event === 'drain') {
        const gpus = queryText(ctx, parameters.drainedGpus) || undefined;
        log.write({ ...about, job_id: undefined, draining: name === 'drain', gpus });
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
