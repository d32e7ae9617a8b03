import { AsyncLocalStorage } from 'node:async_hooks';
import type { Context, Middleware } from 'koa';
import { internalError } from '../../contract/index.js';
import type { Report } from '../report.js';
import { endResponse } from './errors.js';

/** The request that is being handled in the current async context. */
const current = new AsyncLocalStorage<Context>();

/** Requests that were ended because of an uncaught error. Their further errors are ignored. */
const ended = new WeakSet<Context>();

/** Ends a request after an uncaught error: with an error answer if no answer has begun, otherwise by closing its connection. */
function end(ctx: Context): void {
  if (ended.has(ctx)) return;
  ended.add(ctx);
  const { req, res } = ctx;
  if (res.headersSent || res.writableEnded || !res.socket) {
    req.socket.destroy();
    return;
  }
  endResponse(res, internalError());
  req.removeAllListeners('data');
  req.resume();
}

function handle(cause: unknown, report: Report): void {
  const ctx = current.getStore();
  const what = ctx ? `${ctx.method} ${ctx.path}` : 'Something outside of any request';
  try {
    report(`${what} failed with an uncaught error`, cause);
    if (ctx) end(ctx);
  } catch {
    // An error thrown here would be uncaught again.
  }
}

/**
 * Handles the uncaught errors of this process: each ends only the request that it belongs to, never the server, because other people's jobs
 * depend on it. The error is logged, since it is always a bug in this program.
 */
export function surviveUncaughtErrors(report: Report): void {
  const onError = (cause: unknown) => handle(cause, report);
  process.on('uncaughtException', onError).on('unhandledRejection', onError);
}

/** Middleware that makes a request the current one for all later middleware. */
export const withCurrentRequest: Middleware = (ctx, next) => current.run(ctx, next);
