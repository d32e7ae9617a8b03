import type { Context } from 'koa';
import { ServiceError } from '../../contract/errors.js';
import { isDiskFull } from '../../files/error-code.js';
import { DiskWatch } from './disk-room.js';
import type { EarlyChecks } from './early-checks.js';
import { mostFilesIn } from './form-limits.js';
import { FormReceiver } from './form-receiver.js';
import { type SubmissionLimits, UploadQuota } from './quota.js';
import type { ReceivedForm } from './received-form.js';
import { RequestFlow } from './request-flow.js';

/** Milliseconds without a byte after which an upload is ended. */
const idleLimit = 60_000;

/**
 * The same for an upload whose repeat waits for it: a client that lost its connection without the server's notice sends the
 * upload again.
 */
const awaitedLimit = 3000;

/** Turns an error of formidable, of the disk or of the connection into a ServiceError. */
function formFault(cause: unknown): unknown {
  if (cause instanceof ServiceError || !(cause instanceof Error)) return cause;
  if (isDiskFull(cause)) {
    return new ServiceError('diskFull', "The server's disk is full; try again later", { cause });
  }
  if (!('httpCode' in cause)) return cause;
  return new ServiceError('badRequest', `The body is not a whole multipart form: ${cause.message}`);
}

/**
 * Resolves when the request is read to its end. Rejects if it breaks off, or if no byte comes for too long.
 * @param awaited aborted when a repeat of the request waits for it
 */
function wholeRequest(ctx: Context, done: AbortSignal, awaited: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    // `complete`: all bytes arrived; `readableEnded`: all were consumed. A request with garbage behind it is destroyed
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

/** Hands the parts of the request's form to the receiver. */
async function parse(ctx: Context, receiver: FormReceiver, flow: RequestFlow): Promise<void> {
  // Imported lazily to keep start-up fast.
  const [{ koaBody }, { guardedMultipart }] = await Promise.all([
    import('koa-body'),
    import('./guarded-multipart.js'),
  ]);
  const read = koaBody({
    multipart: true,
    json: false,
    text: false,
    urlencoded: false,
    onError: (cause) => {
      throw cause;
    },
    formidable: {
      // One character a byte: formidable decodes names piece by piece, and a UTF-8 character may span two pieces.
      encoding: 'binary',
      enabledPlugins: [guardedMultipart(receiver, flow)],
    },
  });
  await read(ctx, async () => {});
}

/** @throws ServiceError 415 for a body that is encoded in any way: Node does not decode it */
function checkCodings(ctx: Context): void {
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

/**
 * Reads a multipart form. Its files are written into `directory` while they arrive, under numbers as names.
 * @param checks of what is known before a file is read
 * @param awaited aborted when a repeat of the request waits for it
 * @throws ServiceError 400, 408, 413, 415, 422, 503 or 507; the caller removes the directory
 */
export async function receiveForm(
  ctx: Context,
  directory: string,
  limits: SubmissionLimits,
  checks: EarlyChecks,
  awaited: AbortSignal,
): Promise<ReceivedForm> {
  checkCodings(ctx);
  const flow = new RequestFlow(ctx.req);
  const mostFiles = mostFilesIn(ctx.request.length ?? Number.POSITIVE_INFINITY);
  using disk = new DiskWatch(directory, (cause) => receiver.fail(cause), mostFiles);
  const receiver = new FormReceiver(directory, new UploadQuota(limits), disk, flow, checks);
  const done = new AbortController();
  try {
    // The form may be complete before the request is. A request that breaks off there is refused as well.
    // The disk is asked while the parser begins, so that the first file need not wait for the answer.
    disk.look();
    const whole = Promise.all([parse(ctx, receiver, flow), wholeRequest(ctx, done.signal, awaited)]);
    await Promise.race([whole, receiver.failed]);
    await Promise.race([receiver.finish(), receiver.failed]);
    return receiver;
  } catch (cause) {
    // The rest of the request is ignored.
    ctx.req.removeAllListeners('data');
    await receiver.abandon();
    throw formFault(cause);
  } finally {
    done.abort();
  }
}
