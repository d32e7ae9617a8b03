import type { Context } from 'koa';
import { ServiceError } from '../../contract/index.js';

/** Milliseconds without a byte after which a body is given up. */
const idleLimit = 60_000;

/**
 * The same while a repetition of the request is waiting: a client that lost its connection without the server noticing sends
 * everything again.
 */
const awaitedLimit = 3000;

/**
 * Resolves when the request has been read completely. Rejects if it breaks off, or if no byte arrives for too long.
 * @param awaited aborted when a repetition of the request is waiting for it
 */
export function wholeRequest(ctx: Context, done: AbortSignal, awaited: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    // `complete`: all bytes arrived; `readableEnded`: all were consumed. A request that is followed by garbage is destroyed
    // between the two.
    const onClose = () => {
      if (ctx.req.readableEnded) resolve();
      else reject(new ServiceError('badRequest', 'The upload broke off'));
    };
    if (ctx.req.destroyed) onClose();
    else ctx.req.once('close', onClose);
    const limit = () => (awaited.aborted ? awaitedLimit : idleLimit);
    const onTimeout = () =>
      reject(new ServiceError('uploadStalled', `No byte of the upload arrived for ${limit() / 1000} s`));
    ctx.req.setTimeout(limit(), onTimeout);
    const onAwaited = () => ctx.req.setTimeout(limit());
    awaited.addEventListener('abort', onAwaited);
    done.addEventListener('abort', () => {
      awaited.removeEventListener('abort', onAwaited);
      ctx.req.setTimeout(0);
      ctx.req.off('timeout', onTimeout);
      ctx.req.off('close', onClose);
    });
  });
}

/** Answers `Expect: 100-continue`, after which the client sends the body. */
export function askForBody(ctx: Context): void {
  if (/^100-continue$/i.test(ctx.get('Expect'))) ctx.res.writeContinue();
}

/** Refuses a body with any content coding, because Node does not decode it. @throws ServiceError 415 */
export function checkCodings(ctx: Context): void {
  if (!/^(identity)?$/i.test(ctx.get('Content-Encoding'))) {
    const detail = 'The body must not be compressed: send it without Content-Encoding';
    throw new ServiceError('notMultipart', detail);
  }
  if (!/^(chunked)?$/i.test(ctx.get('Transfer-Encoding'))) {
    throw new ServiceError('notMultipart', "The body may have no other Transfer-Encoding than 'chunked'");
  }
}

/** The Content-Length of a request; undefined if it has none. */
export function contentLength(ctx: Context): number | undefined {
  const text = ctx.get('Content-Length');
  return text === '' ? undefined : Number(text);
}
