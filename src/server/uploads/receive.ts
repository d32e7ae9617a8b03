import type { PluginFunction } from 'formidable';
import type { Context } from 'koa';
import { koaBody } from 'koa-body';
import { ServiceError } from '../../contract/index.js';
import { isDiskFull } from '../../files/index.js';
import { DiskWatch, type MakeRoom } from './disk-space.js';
import { FormParser, readBoundary } from './form-parser.js';
import { FormReceiver } from './form-receiver.js';
import { maxFilesIn, type SubmissionLimits, UploadQuota } from './limits.js';
import type { EarlyChecks, ReceivedForm } from './read-form.js';
import { RequestFlow } from './uploaded-file.js';

/** Milliseconds without a byte after which an upload is aborted. */
const idleLimit = 60_000;

/**
 * The same for an upload whose repetition is waiting: a client that lost its connection, unnoticed by the server, sends
 * the upload again.
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
 * Resolves when the request has been read completely. Rejects if it breaks off, or if no byte arrives for too long.
 * @param awaited aborted when a repetition of the request is waiting for it
 */
function wholeRequest(ctx: Context, done: AbortSignal, awaited: AbortSignal): Promise<void> {
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

/** The members of formidable's form that its plugins use to install a parser. */
interface PluggedForm {
  _parser: FormParser;
  ended: boolean;
  _maybeEnd(): void;
}

/** Makes formidable use this parser, as its own plugins do with theirs. */
const pluginWith =
  (parser: FormParser): PluginFunction =>
  (formidable) => {
    const form = formidable as unknown as PluggedForm;
    form._parser = parser;
    parser.once('finish', () => {
      form.ended = true;
      form._maybeEnd();
    });
  };

/** Reads the body of the request through a parser. */
async function parse(ctx: Context, parser: FormParser): Promise<void> {
  const read = koaBody({
    multipart: true,
    json: false,
    text: false,
    urlencoded: false,
    onError: (cause) => {
      throw cause;
    },
    formidable: { enabledPlugins: [pluginWith(parser)] },
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

/** What an upload needs from its caller. */
export interface UploadContext {
  /** Aborted when a repetition of the request is waiting for it. */
  readonly awaited: AbortSignal;
  /** Aborted, with the error for the client, when its sender is no longer allowed to send it. */
  readonly refused: AbortSignal;
  /** Frees disk space before an upload that does not fit is refused. */
  readonly makeRoom: MakeRoom;
}

/**
 * Reads a multipart form. Its files are written into `directory` as they arrive, with numbers as names.
 * @param checks of what is known before a file is read
 * @throws ServiceError 400, 401, 408, 413, 415, 422, 503 or 507; the caller removes the directory
 */
export async function receiveForm(
  ctx: Context,
  directory: string,
  limits: SubmissionLimits,
  checks: EarlyChecks,
  { awaited, refused, makeRoom }: UploadContext,
): Promise<ReceivedForm> {
  checkCodings(ctx);
  const boundary = readBoundary(ctx.get('Content-Type'));
  const flow = new RequestFlow(ctx.req);
  const maxFiles = maxFilesIn(ctx.request.length ?? Number.POSITIVE_INFINITY);
  using disk = new DiskWatch(directory, (cause) => receiver.fail(cause), maxFiles, makeRoom);
  const receiver = new FormReceiver(directory, new UploadQuota(limits), disk, flow, checks);
  const parser = new FormParser(boundary, receiver);
  const failed = new Promise<never>((_, reject) => {
    receiver.failure.addEventListener('abort', () => reject(receiver.failure.reason));
  });
  failed.catch(() => {});
  const done = new AbortController();
  refused.addEventListener('abort', () => receiver.fail(refused.reason), { signal: done.signal });
  try {
    // The form may be complete before the request is; a request that breaks off then is refused too. The disk is checked
    // while the headers of the first part arrive.
    disk.look();
    const whole = Promise.all([parse(ctx, parser), wholeRequest(ctx, done.signal, awaited)]);
    await Promise.race([whole, failed]);
    await Promise.race([receiver.finish(), failed]);
    return receiver;
  } catch (cause) {
    // formidable ignores the rest of the request.
    parser.destroy(cause instanceof Error ? cause : undefined);
    await receiver.abandon();
    throw formFault(cause);
  } finally {
    done.abort();
  }
}
