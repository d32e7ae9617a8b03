import path from 'node:path';
import { finished } from 'node:stream/promises';
import type { Part } from 'formidable';
import type { Context } from 'koa';
import { ServiceError } from '../../contract/errors.js';
import { errorCode } from '../../files/error-code.js';
import { type UploadLimits, UploadQuota } from './quota.js';
import { UploadSink } from './upload-sink.js';

/** A file part, written as it came. */
export interface ReceivedFile {
  readonly field: string;
  /** The client's name for it, as sent. */
  readonly name: string;
  readonly path: string;
}

/** What a multipart body held, in the order of its parts. */
export interface ReceivedForm {
  readonly fields: readonly { readonly name: string; readonly text: string }[];
  readonly files: readonly ReceivedFile[];
}

/** Milliseconds without a byte after which an upload is cut. */
const idleLimit = 60_000;
const maxFields = 1000;
const maxFieldBytes = 1 << 20;
const maxFiles = 100_000;

/**
 * formidable decodes names piece by piece, which breaks a character that two pieces share. Read as Latin-1, each
 * byte is one character, and the whole is decoded here.
 */
const wireEncoding = 'binary';

function decode(text: string, what: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(text, 'latin1'));
  } catch {
    throw new ServiceError('badRequest', `${what} is not UTF-8`);
  }
}

/** formidable takes a part with a content type for a file; what makes a part a file is its file name. */
function typeByName(part: Part & { headers?: Record<string, string> }): Part {
  const extended = /\bfilename\*=utf-8''([^;\s]*)/i.exec(part.headers?.['content-disposition'] ?? '')?.[1];
  const name = part.originalFilename ?? (extended === undefined ? null : percentDecode(extended));
  const mimetype = name === null ? null : (part.mimetype ?? 'application/octet-stream');
  return Object.assign(part, { originalFilename: name, mimetype });
}

/** To bytes, one character each. */
const percentDecode = (text: string): string =>
  text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));

/** A fault of formidable's, or of the connection, as ours. */
function formFault(cause: unknown): unknown {
  if (cause instanceof ServiceError || !(cause instanceof Error)) return cause;
  if (errorCode(cause) === 'ENOSPC') {
    return new ServiceError('diskFull', "The server's disk is full; try again later", { cause });
  }
  const status = 'httpCode' in cause ? cause.httpCode : undefined;
  if (status === 413) return new ServiceError('uploadTooLarge', `The form is too large: ${cause.message}`);
  if (status === undefined) return cause;
  return new ServiceError('badRequest', `The body is not a whole multipart form: ${cause.message}`);
}

/** Resolves when the request is read to its end; rejects when it breaks off, or no byte has come for a while. */
function wholeRequest(ctx: Context, done: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    // Complete is what has come, ended what was read: a request with garbage behind it is destroyed in between.
    const onClose = () => {
      if (ctx.req.readableEnded) resolve();
      else reject(new ServiceError('badRequest', 'The upload broke off'));
    };
    if (ctx.req.destroyed) onClose();
    else ctx.req.once('close', onClose);
    const onTimeout = () =>
      reject(new ServiceError('uploadStalled', `No byte of the upload came for ${idleLimit / 1000} s`));
    ctx.req.setTimeout(idleLimit, onTimeout);
    done.addEventListener('abort', () => {
      ctx.req.setTimeout(0);
      ctx.req.off('timeout', onTimeout);
      ctx.req.off('close', onClose);
    });
  });
}

/**
 * Reads a multipart form; its files go straight into `directory`, under names of our own.
 * @throws ServiceError 400, 408, 413 or 507; what was written is the caller's to remove
 */
export async function receiveForm(
  ctx: Context,
  directory: string,
  limits: UploadLimits,
): Promise<ReceivedForm> {
  const quota = new UploadQuota(limits);
  const received: ReceivedFile[] = [];
  const sinks: UploadSink[] = [];
  const writes: Promise<void>[] = [];
  let part = { field: '', name: '' };

  // Loaded with the first upload: the server answers the sooner.
  const { koaBody } = await import('koa-body');
  const parse = koaBody({
    multipart: true,
    onError: (cause) => {
      throw cause;
    },
    formidable: {
      encoding: wireEncoding,
      allowEmptyFiles: true,
      minFileSize: 0,
      maxFileSize: Number.POSITIVE_INFINITY,
      maxTotalFileSize: Number.POSITIVE_INFINITY,
      maxFields,
      maxFieldsSize: maxFieldBytes,
      maxFiles,
      // The sink has its own names; without this one formidable hashes a new one for each file.
      filename: () => 'unused',
      onPart: (each, handle) => handle(typeByName(each)),
      // Nothing may throw in these two: formidable has nobody there who would catch it.
      onFileBegin: (field, file) => {
        part = { field: field ?? '', name: file.originalFilename ?? '' };
      },
      fileWriteStreamHandler: () => {
        const file = { ...part, path: path.join(directory, String(received.length)) };
        received.push(file);
        const sink = new UploadSink(file.path, Buffer.from(file.name, 'latin1').toString(), quota);
        const written = finished(sink);
        // Awaited below; until then a failure is nobody's.
        written.catch(() => {});
        writes.push(written);
        sinks.push(sink);
        return sink;
      },
    },
  });

  const done = new AbortController();
  try {
    // The form may be whole before the request is: what is cut there is cut all the same.
    await Promise.all([parse(ctx, async () => {}), wholeRequest(ctx, done.signal)]);
    // formidable takes a file for whole when its last piece was handed over, written or not.
    await Promise.all(writes);
  } catch (cause) {
    // formidable closes nothing of a request that broke off.
    for (const sink of sinks) sink.destroy();
    await Promise.allSettled(writes);
    throw formFault(cause);
  } finally {
    done.abort();
  }
  const body = (ctx.request.body ?? {}) as Record<string, string | string[]>;
  const texts = Object.entries(body).flatMap(([name, text]) => [text].flat().map((each) => [name, each]));
  return {
    fields: texts.map(([name = '', text = '']) => ({
      name: decode(name, 'A field name'),
      text: decode(text, `Field '${name}'`),
    })),
    files: received.map((file) => ({
      ...file,
      field: decode(file.field, 'A field name'),
      name: decode(file.name, 'A file name'),
    })),
  };
}
