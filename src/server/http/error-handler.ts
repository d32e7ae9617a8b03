import type { Context, Middleware } from 'koa';
import type { Principal } from '../../access/index.js';
import { internalError, oneLine, ServiceError } from '../../contract/index.js';
import { errorCode, isDiskFull, isFileTooLarge, isShortage } from '../../files/index.js';
import type { ServerEvents } from '../events.js';
import type { Report } from '../report.js';
import { errorAnswer } from './error-answer.js';

/** Longest part of a request's path that an answer repeats. */
const maxShown = 300;

/** A request's path, which comes from outside, in a form for a sentence. */
const shown = (address: string): string => oneLine(address.slice(0, maxShown));

/** Any error as a ServiceError for the client. An unknown error is masked, and reported on the server's log. */
function toServiceError(cause: unknown, ctx: Context, report: Report): ServiceError {
  if (cause instanceof ServiceError) return cause;
  // An invalid URL: Koa cannot even read its path.
  if (errorCode(cause) === 'ERR_INVALID_URL') {
    return new ServiceError('badRequest', 'The address of the request is not valid');
  }
  if (isDiskFull(cause)) {
    report(`${ctx.method} ${ctx.path} failed`, cause);
    return new ServiceError('diskFull', "The server's disk is full; try again later");
  }
  if (isFileTooLarge(cause)) {
    report(`${ctx.method} ${ctx.path} failed`, cause);
    const detail =
      "The server may not write files of this size: its admin must raise its limit of a file's size (ulimit -f)";
    return new ServiceError('unwritable', detail);
  }
  if (isShortage(cause)) {
    report(`${ctx.method} ${ctx.path} failed`, cause);
    return new ServiceError('shortage', 'The server has too much open at the moment; try again soon');
  }
  if (!ctx.req.destroyed || ctx.req.complete) report(`${ctx.method} ${ctx.path} failed`, cause);
  return internalError();
}

/** Turns whatever is thrown below it into the error's answer (interface.md, Errors). */
export function handleErrors(report: Report, events: ServerEvents): Middleware {
  return async (ctx, next) => {
    try {
      // A request has no fragment, which Koa would cut off and a proxy's rule for a path would not.
      if (ctx.url.includes('#'))
        throw new ServiceError('notFound', `There is no ${ctx.method} ${shown(ctx.url)}`);
      await next();
      if (ctx.status === 404 && ctx.body === undefined) {
        throw new ServiceError('notFound', `There is no ${ctx.method} ${shown(ctx.path)}`);
      }
      // 501 is the router's answer to a method that no route has.
      if ((ctx.status === 405 || ctx.status === 501) && ctx.body === undefined) {
        throw new ServiceError('methodNotAllowed', `${shown(ctx.path)} does not take ${ctx.method}`);
      }
    } catch (cause) {
      const error = toServiceError(cause, ctx, report);
      const { status, headers, contentType, body } = errorAnswer(error);
      ctx.status = status;
      ctx.set({ ...headers, 'Content-Type': contentType });
      ctx.body = body;
      const { method, ip: from } = ctx;
      ctx.state.isRefused = true;
      const { name: owner = null, role = null } = (ctx.state.principal ?? {}) as Partial<Principal>;
      const { _matchedRouteName: route = null } = ctx as { _matchedRouteName?: string };
      const { code, detail } = error;
      // Not ctx.path, which throws for an address that is not valid.
      const path = shown(ctx.url.split('?', 1)[0] ?? '');
      events.tell('refused', { method, path, status, error: code, detail, from, owner, role, route });
    }
  };
}
