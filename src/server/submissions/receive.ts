import { finished } from 'node:stream/promises';
import type { Context } from 'koa';
import { ServiceError } from '../../contract/index.js';
import { FormParser, readBoundary } from '../../multipart/index.js';
import { DiskWatch, type MakeRoom, uploadFault } from './disk-space.js';
import { FormReceiver } from './form-receiver.js';
import { type SubmissionLimits, UploadQuota, type UploadTurns } from './limits.js';
import type { EarlyChecks, ReceivedForm } from './read-form.js';
import { SyncBehind } from './uploaded-file.js';

/** Milliseconds without a byte after which an upload is aborted. */
const idleLimit = 60_000;

/**
 * The same for an upload whose repetition is waiting: a client that lost its connection, unnoticed by the server, sends
 * the upload again.
 */
const awaitedLimit = 3000;

/**
 * Resolves when the request has been read completely. Rejects if it breaks off, or if no byte arrives for too long.
 * @param awaited aborted when a repetition of the request is waiting for it
 */
export function wholeRequest(ctx: Context, done: AbortSignal, awaited: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    // `complete`: all bytes arrived; `readableEnded`: all were consumed. A request with garbage after it is destroyed
    // between the two.
    const onClose = () => {
      if (ctx.req.readableEnded) resolve();
      else reject(new ServiceError('badRequest', 'The upload broke off'));
    };
    if (ctx.req.destroyed) onClose();
    else ctx.req.once('close', onClose);
    const limit = () => (awaited.aborted ? awaitedLimit : idleLimit);
    const onTimeout = () =>
      reject(new ServiceError('uploadStalled', `No byte of the upload came for ${limit() / 1000} s`));
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

/** Answers a client that sent `Expect: 100-continue`: it sends the body only now. */
export function askForBody(ctx: Context): void {
  if (/^100-continue$/i.test(ctx.get('Expect'))) ctx.res.writeContinue();
}

/** @throws ServiceError 415 for a body that is encoded in any way: Node does not decode it */
export function checkCodings(ctx: Context): void {
  if (!/^(identity)?$/i.test(ctx.get('Content-Encoding'))) {
    throw new ServiceError(
      'notMultipart',
      'The body must not be compressed: send it without Content-Encoding',
    );
  }
  if (!/^(chunked)?$/i.test(ctx.get('Transfer-Encoding'))) {
    throw new ServiceError('notMultipart', "The body may have no other Transfer-Encoding than 'chunked'");
  }
}

/** What an upload needs from its caller. */
export interface UploadContext {
  /** Aborted when a repetition of the request is waiting for it. */
  readonly awaited: AbortSignal;
  /** Aborted, with the error for the client, when its sender is no longer allowed to send it. */
  readonly refused: AbortSignal;
  /** Frees disk space before an upload that does not fit is refused. */
  readonly makeRoom: MakeRoom;
  readonly turns: UploadTurns;
}

/**
 * Reads a multipart form. Its files are written into `directory` as they arrive, with numbers as names.
 * @param checks of what is known before a file is read
 * @throws ServiceError 400, 401, 408, 413, 415, 422, 503 or 507, or the system's error; the caller removes the directory
 */
export async function receiveForm(
  ctx: Context,
  directory: string,
  limits: SubmissionLimits,
  checks: EarlyChecks,
  { awaited, refused, makeRoom, turns }: UploadContext,
): Promise<ReceivedForm> {
  checkCodings(ctx);
  const boundary = readBoundary(ctx.get('Content-Type'));
  const disk = new DiskWatch(directory, makeRoom);
  const behind = new SyncBehind(turns);
  const receiver = new FormReceiver(directory, new UploadQuota(limits), disk, behind, checks);
  const parser = new FormParser(boundary, receiver);
  const done = new AbortController();
  refused.addEventListener('abort', () => parser.destroy(refused.reason), { signal: done.signal });
  try {
    // The form may be complete before the request is; a request that breaks off then is refused too. Not `pipeline`, which
    // would end the connection with the parser, before the client has an answer.
    const parsed = finished(ctx.req.pipe(parser));
    await Promise.all([parsed, wholeRequest(ctx, done.signal, awaited)]);
    await behind.settled();
    return receiver;
  } catch (cause) {
    const fault = uploadFault(cause);
    ctx.req.unpipe(parser);
    parser.destroy();
    await receiver.abandon();
    throw fault;
  } finally {
    done.abort();
  }
}
