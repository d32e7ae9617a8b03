import type { RouterContext, RouterMiddleware } from '@koa/router';
import {
  FieldError,
  formatBytes,
  mediaTypes,
  quoteName,
  type RouteName,
  ServiceError,
  tus,
  uploadLocation,
  uploadNamePattern,
} from '../../contract/index.js';
import { askForBody, captured, contentLength, principalOf, senderOf, wholeRequest } from '../http/index.js';
import { type JobService, uploadsFull } from '../jobs/index.js';
import type { SubmissionSettings } from '../submissions/index.js';
import {
  type Checksum,
  type DiskSpace,
  type OwnedUploads,
  type Upload,
  type UploadStore,
  writeFault,
} from '../uploads/index.js';

export interface UploadDeps {
  /** Null if the server stores no uploads. */
  readonly uploads: UploadStore | null;
  readonly jobs: JobService;
  readonly limits: SubmissionSettings;
  readonly disk: DiskSpace;
}

const { headers } = tus;

/** The sender's uploads. @throws ServiceError if the server stores no uploads, or if this is not a tus request */
function ownUploads(ctx: RouterContext, { uploads }: UploadDeps): OwnedUploads {
  ctx.set(headers.resumable, tus.version);
  ctx.set('Cache-Control', 'no-store');
  if (uploads === null) {
    const detail = 'This server keeps no uploads: send files in the form of the submission';
    throw new ServiceError('notFound', detail);
  }
  if (ctx.get(headers.resumable) !== tus.version) {
    ctx.set(headers.version, tus.version);
    throw new ServiceError('otherProtocol', `Send the header '${headers.resumable}: ${tus.version}'`);
  }
  return uploads.of(principalOf(ctx).name);
}

/** Reads a header that states a number of bytes. @throws FieldError */
function bytesIn(ctx: RouterContext, name: string): number {
  const text = ctx.get(name);
  if (!/^\d{1,15}$/.test(text)) {
    throw new FieldError(
      name,
      text === '' ? 'is required' : `must be a number of bytes, got ${quoteName(text)}`,
    );
  }
  return Number(text);
}

/** The name of a new upload, from its metadata: pairs of a key and a base64 value, separated by commas. @throws FieldError */
function nameIn(ctx: RouterContext): string {
  const pairs = ctx
    .get(headers.metadata)
    .split(',')
    .map((pair) => pair.trim().split(' '));
  const value = pairs.find(([key]) => key === tus.nameKey)?.[1];
  const name = Buffer.from(value ?? '', 'base64').toString('latin1');
  if (uploadNamePattern.test(name)) return name;
  throw new FieldError(
    headers.metadata,
    `must have '${tus.nameKey}': the SHA-256 of the content, 64 lower-case hexadecimal digits, in base64`,
  );
}

/** The checksum of the body; null without one. @throws ServiceError */
function checksumIn(ctx: RouterContext): Checksum | null {
  const text = ctx.get(headers.checksum);
  if (text === '') return null;
  const [algorithm = '', digest = ''] = text.split(' ');
  if (!(tus.checksums as readonly string[]).includes(algorithm)) {
    const detail = `'${headers.checksum}' must begin with ${tus.checksums.join(' or ')}`;
    throw new ServiceError('badRequest', detail);
  }
  return { algorithm, digest: Buffer.from(digest, 'base64') };
}

/** Checks the body's media type and coding. @throws ServiceError unless the body is plain bytes for an upload */
function checkType(ctx: RouterContext): void {
  if (
    ctx.get('Content-Type') === mediaTypes.offsetStream &&
    /^(identity)?$/i.test(ctx.get('Content-Encoding'))
  ) {
    return;
  }
  const detail = `The body must be ${mediaTypes.offsetStream}, without Content-Encoding`;
  throw new ServiceError('notOffsetStream', detail);
}

/** Appends the body to an upload, unless another request is writing it. Resolves when the bytes are on disk. */
async function appendBody(ctx: RouterContext, upload: Upload, { disk }: UploadDeps): Promise<void> {
  const checksum = checksumIn(ctx);
  const missing = upload.length - upload.offset;
  const stated = contentLength(ctx) ?? missing;
  if (stated > missing) {
    const detail = `The body has ${stated} bytes, but only ${missing} of the upload are missing`;
    throw new ServiceError('uploadTooLarge', detail);
  }
  using turn = upload.takeTurn();
  const { refused } = senderOf(ctx);
  refused.throwIfAborted();
  const space = await upload.reserve(disk);
  askForBody(ctx);
  const done = new AbortController();
  const arrived = wholeRequest(ctx, done.signal, turn.awaited);
  try {
    await upload.append({ body: ctx.req, arrived, refused }, checksum, space);
  } catch (cause) {
    // If a token is revoked, its uploads are removed while its last request is still running.
    throw refused.aborted ? refused.reason : writeFault(cause);
  } finally {
    done.abort();
  }
}

/** Answers with a status and no body. */
function end(ctx: RouterContext, status: number): void {
  ctx.body = null;
  ctx.status = status;
}

/** Sets the headers that state an upload's progress. */
function setProgress(ctx: RouterContext, owned: OwnedUploads, upload: Upload): void {
  ctx.set(headers.offset, String(upload.offset));
  ctx.set(headers.expires, owned.expiry(upload).toUTCString());
}

/** Maximum size in bytes of an upload of the sender: a data set may be larger than any other file. */
function maxBytes(ctx: RouterContext, { limits: { maxFileSize, maxDatasetSize } }: UploadDeps): number {
  const own = principalOf(ctx).limits.max_upload?.max ?? Number.POSITIVE_INFINITY;
  return Math.min(own, Math.max(maxFileSize, maxDatasetSize ?? 0));
}

/** `OPTIONS /uploads`. */
const showTerms = (deps: UploadDeps) => (ctx: RouterContext) => {
  ctx.set(headers.resumable, tus.version);
  if (deps.uploads === null) throw new ServiceError('notFound', 'This server keeps no uploads');
  ctx.set({
    [headers.version]: tus.version,
    [headers.extension]: tus.extensions.join(','),
    [headers.maxSize]: String(maxBytes(ctx, deps)),
    [headers.checksumAlgorithm]: tus.checksums.join(','),
  });
  end(ctx, 204);
};

/**
 * Begins an upload that does not exist yet, and reserves space for all of it.
 * @throws ServiceError if there is too little space on the disk, or within what its owner may keep
 */
async function beginNew(
  ctx: RouterContext,
  owned: OwnedUploads,
  { sha256, length }: { readonly sha256: string; readonly length: number },
  { jobs, disk }: UploadDeps,
): Promise<Upload> {
  const principal = principalOf(ctx);
  const room = await jobs.roomForUpload(principal, length);
  if (room !== null && !owned.makeRoom(length, room)) throw uploadsFull(principal, owned.bytes);
  using space = disk.reservationFor(principal.name);
  await space.take(length, `an upload of ${formatBytes(length)}`);
  // Another request may have begun it in the meantime.
  return owned.begun(sha256, length) ?? owned.begin(sha256, length, space);
}

/** `POST /uploads`. If the upload already exists, answers with its current offset. */
const begin = (deps: UploadDeps) => async (ctx: RouterContext) => {
  const owned = ownUploads(ctx, deps);
  const sha256 = nameIn(ctx);
  const length = bytesIn(ctx, headers.length);
  const max = maxBytes(ctx, deps);
  if (length > max) {
    const detail = `The upload is larger than the limit of ${formatBytes(max)}`;
    throw new ServiceError('fileTooLarge', detail);
  }
  const hasBytes = ctx.get('Content-Type') !== '' && ctx.get('Content-Length') !== '0';
  if (hasBytes) checkType(ctx);
  const upload = owned.begun(sha256, length) ?? (await beginNew(ctx, owned, { sha256, length }, deps));
  if (hasBytes && upload.offset === 0) await appendBody(ctx, upload, deps);
  else await upload.checkContent();
  upload.use();
  ctx.set('Location', uploadLocation(sha256));
  setProgress(ctx, owned, upload);
  end(ctx, 201);
};

/** `HEAD /uploads/{sha256}`. */
const show = (deps: UploadDeps) => async (ctx: RouterContext) => {
  const owned = ownUploads(ctx, deps);
  const upload = await owned.findChecked(captured(ctx));
  upload.use();
  ctx.set(headers.length, String(upload.length));
  setProgress(ctx, owned, upload);
  end(ctx, 200);
};

/** `PATCH /uploads/{sha256}`. */
const append = (deps: UploadDeps) => async (ctx: RouterContext) => {
  const owned = ownUploads(ctx, deps);
  checkType(ctx);
  const offset = bytesIn(ctx, headers.offset);
  const upload = await owned.findChecked(captured(ctx));
  if (offset !== upload.offset) {
    ctx.set(headers.offset, String(upload.offset));
    const detail = `The upload has ${upload.offset} bytes, not ${offset}: continue from there`;
    throw new ServiceError('wrongOffset', detail);
  }
  await appendBody(ctx, upload, deps);
  setProgress(ctx, owned, upload);
  end(ctx, 204);
};

/** `DELETE /uploads/{sha256}`. */
const remove = (deps: UploadDeps) => async (ctx: RouterContext) => {
  const owned = ownUploads(ctx, deps);
  const upload = owned.find(captured(ctx));
  if (upload.isInUse) {
    const detail = 'Another request is writing this upload, or a submission needs it; try again in a moment';
    throw new ServiceError('uploadInUse', detail);
  }
  await owned.remove(upload);
  end(ctx, 204);
};

/** The handlers of the upload routes, which follow tus 1.0 (docs/http.md, Uploads). */
export const uploadRoutes = (deps: UploadDeps) =>
  ({
    uploadTerms: showTerms(deps),
    beginUpload: begin(deps),
    upload: show(deps),
    appendUpload: append(deps),
    removeUpload: remove(deps),
  }) satisfies Partial<Record<RouteName, RouterMiddleware>>;
