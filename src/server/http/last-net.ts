import { AsyncLocalStorage } from 'node:async_hooks';
import type { EventEmitter } from 'node:events';
import type { Context, Middleware } from 'koa';
import { internalError } from '../../contract/errors.js';
import type { Report } from '../report.js';
import { endResponse } from './error-answer.js';

/** The request that the running code works for. */
const current = new AsyncLocalStorage<Context>();

/** Requests that the net has ended: what they fail of afterwards changes nothing. */
const ended = new WeakSet<Context>();

/** Ends the one request that a fault belongs to: with an answer where none has begun, else with its connection. */
function end(ctx: Context): void {
  if (ended.has(ctx)) return;
  ended.add(ctx);
  const { req, res } = ctx;
  if (res.headersSent || res.writableEnded || !res.socket) {
    req.socket.destroy();
    return;
  }
  for (const name of res.getHeaderNames()) res.removeHeader(name);
  endResponse(res, internalError());
  req.removeAllListeners('data');
  req.resume();
}

function handle(cause: unknown, report: Report): void {
  const ctx = current.getStore();
  const what = ctx ? `${ctx.method} ${ctx.path}` : 'Something outside of any request';
  try {
    report(`${what} failed where nothing caught it`, cause);
    if (ctx) end(ctx);
  } catch {
    // It would come back here. There is nothing left to tell it to.
  }
}

/**
 * The last net: an error that nothing has caught ends the one request that it belongs to, and never the server, which
 * other people's jobs depend on. It is said on the server's log, for it is always a mistake in this program.
 */
export class LastNet {
  readonly #onError: (cause: unknown) => void;

  constructor(report: Report) {
    this.#onError = (cause) => handle(cause, report);
  }

  install(): void {
    process.on('uncaughtException', this.#onError);
    process.on('unhandledRejection', this.#onError);
  }

  remove(): void {
    process.off('uncaughtException', this.#onError);
    process.off('unhandledRejection', this.#onError);
  }
}

/**
 * Emits a stream's events in the name of the request. They come from the connection, which lives longer than a request
 * does, and what throws there is an error of the connection to some versions of Node.
 */
function emitFor(ctx: Context, emitter: EventEmitter): void {
  const emit = emitter.emit.bind(emitter);
  emitter.emit = (event, ...values) =>
    current.run(ctx, () => {
      try {
        return emit(event, ...values);
      } catch (cause) {
        process.nextTick(() => {
          throw cause;
        });
        return true;
      }
    });
}

/** Lets the net know which request is worked for, in whatever the request and its answer call back as well. */
export const underLastNet: Middleware = (ctx, next) =>
  current.run(ctx, () => {
    emitFor(ctx, ctx.req);
    emitFor(ctx, ctx.res);
    return next();
  });
