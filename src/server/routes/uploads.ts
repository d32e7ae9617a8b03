import type { Writable } from 'node:stream';
import { finished } from 'node:stream/promises';
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
import { captured, principalOf, senderOf } from '../http/index.js';
import type { JobService } from '../jobs/index.js';
import {
  askForBody,
  checkFits,
  DiskWatch,
  SyncBehind,
  type UploadSettings,
  type UploadTurns,
  uploadFault,
  wholeRequest,
} from '../submissions/index.js';
import type { Checksum, OwnedUploads, Upload, UploadStore } from '../uploads/index.js';

export interface UploadDeps {
  /** Null if the server keeps none. */
  readonly uploads: UploadStore | null;
  readonly jobs: JobService;
  readonly limits: UploadSettings;
  readonly turns: UploadTurns;
  readonly dataDirectory: string;
}

const { headers } = tus;

/** The uploads of whoever sends the request. @throws ServiceError if there are none here, or the request is not of tus */
function ownUploads(ctx: RouterContext, { uploads }: UploadDeps): OwnedUploads {
  ctx.set(headers.resumable, tus.version);
  ctx.set('Cache-Control', 'no-store');
  if (uploads === null) {
    throw new ServiceError(
      'notFound',
      'This server keeps no uploads: send files in the form of the submission',
    );
  }
  if (ctx.get(headers.resumable) !== tus.version) {
    ctx.set(headers.version, tus.version);
    throw new ServiceError('otherProtocol', `Send the header '${headers.resumable}: ${tus.version}'`);
  }
  return uploads.of(principalOf(ctx).name);
}

/** A header that is a number of bytes. @throws FieldError */
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

/** The name of a new upload, from its metadata: keys with values in base64, separated by commas. @throws FieldError */
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
    throw new ServiceError(
      'badRequest',
      `'${headers.checksum}' must begin with ${tus.checksums.join(' or ')}`,
    );
  }
  return { algorithm, digest: Buffer.from(digest, 'base64') };
}

/** @throws ServiceError unless the body is bytes of an upload, as they are */
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

/** Sends the body to an upload that another request does not write. Resolves when its bytes are on the disk. */
async function receive(ctx: RouterContext, upload: Upload, deps: UploadDeps): Promise<void> {
  const { jobs, turns, dataDirectory } = deps;
  const checksum = checksumIn(ctx);
  const stated = Number(ctx.get('Content-Length'));
  if (stated > upload.length - upload.offset) {
    const detail = `The body has ${stated} bytes, and ${upload.length - upload.offset} of the upload are missing`;
    throw new ServiceError('uploadTooLarge', detail);
  }
  using turn = upload.take();
  const { refused } = senderOf(ctx);
  refused.throwIfAborted();
  askForBody(ctx);
  const send = async (sink: Writable) => {
    const done = new AbortController();
    refused.addEventListener('abort', () => sink.destroy(refused.reason), { signal: done.signal });
    try {
      await Promise.all([finished(ctx.req.pipe(sink)), wholeRequest(ctx, done.signal, turn.awaited)]);
    } finally {
      ctx.req.unpipe(sink);
      done.abort();
    }
  };
  const disk = new DiskWatch(dataDirectory, () => jobs.makeRoom());
  try {
    await upload.append(send, { checksum, disk, behind: new SyncBehind(turns) });
  } catch (cause) {
    // The uploads of a revoked token are gone under its last request.
    throw refused.aborted ? refused.reason : uploadFault(cause);
  }
}

/** Ends an answer that has no body. */
function end(ctx: RouterContext, status: number): void {
  ctx.body = null;
  ctx.status = status;
}

/** The headers that tell how far an upload is. */
function tell(ctx: RouterContext, owned: OwnedUploads, upload: Upload): void {
  ctx.set(headers.offset, String(upload.offset));
  ctx.set(headers.expires, owned.expiry(upload).toUTCString());
}

/** Most bytes of an upload, of whoever sends the request: a data set may be larger than any other file. */
function mostBytes(ctx: RouterContext, { limits: { maxFileSize, maxDatasetSize } }: UploadDeps): number {
  const own = principalOf(ctx).limits.max_upload?.most ?? Number.POSITIVE_INFINITY;
  return Math.min(own, Math.max(maxFileSize, maxDatasetSize ?? 0));
}

/** `OPTIONS /uploads`. */
const showTerms = (deps: UploadDeps) => (ctx: RouterContext) => {
  ctx.set(headers.resumable, tus.version);
  if (deps.uploads === null) throw new ServiceError('notFound', 'This server keeps no uploads');
  ctx.set({
    [headers.version]: tus.version,
    [headers.extension]: tus.extensions.join(','),
    [headers.maxSize]: String(mostBytes(ctx, deps)),
    [headers.checksumAlgorithm]: tus.checksums.join(','),
  });
  end(ctx, 204);
};

/** `POST /uploads`: an upload that is there already is told as it stands. */
const begin = (deps: UploadDeps) => async (ctx: RouterContext) => {
  const owned = ownUploads(ctx, deps);
  const { jobs, dataDirectory } = deps;
  const sha256 = nameIn(ctx);
  const length = bytesIn(ctx, headers.length);
  const most = mostBytes(ctx, deps);
  if (length > most) {
    const detail = `The upload is larger than the limit of ${formatBytes(most)}`;
    throw new ServiceError('fileTooLarge', detail);
  }
  const hasBytes = ctx.get('Content-Type') !== '' && ctx.get('Content-Length') !== '0';
  if (hasBytes) checkType(ctx);
  const asker = principalOf(ctx);
  const checkRoom = async () => {
    const room = await jobs.roomForUpload(asker, length);
    await checkFits(length, dataDirectory, () => jobs.makeRoom());
    if (room !== null && !owned.makeRoom(length, room)) throw jobs.uploadsFull(asker, owned.bytes);
  };
  const upload = await owned.begin({ sha256, length }, checkRoom);
  if (hasBytes && upload.offset === 0) await receive(ctx, upload, deps);
  else await upload.settle();
  upload.use();
  ctx.set('Location', uploadLocation(sha256));
  tell(ctx, owned, upload);
  end(ctx, 201);
};

/** `HEAD /uploads/{sha256}`. */
const show = (deps: UploadDeps) => async (ctx: RouterContext) => {
  const owned = ownUploads(ctx, deps);
  const upload = await owned.look(captured(ctx));
  upload.use();
  ctx.set(headers.length, String(upload.length));
  tell(ctx, owned, upload);
  end(ctx, 200);
};

/** `PATCH /uploads/{sha256}`. */
const append = (deps: UploadDeps) => async (ctx: RouterContext) => {
  const owned = ownUploads(ctx, deps);
  checkType(ctx);
  const offset = bytesIn(ctx, headers.offset);
  const upload = await owned.look(captured(ctx));
  if (offset !== upload.offset) {
    ctx.set(headers.offset, String(upload.offset));
    throw new ServiceError(
      'wrongOffset',
      `The upload has ${upload.offset} bytes, not ${offset}: go on from there`,
    );
  }
  await receive(ctx, upload, deps);
  tell(ctx, owned, upload);
  end(ctx, 204);
};

/** `DELETE /uploads/{sha256}`. */
const remove = (deps: UploadDeps) => async (ctx: RouterContext) => {
  const owned = ownUploads(ctx, deps);
  const upload = owned.find(captured(ctx));
  if (upload.isInUse) {
    const detail = 'Another request writes this upload, or a submission takes it; try again in a moment';
    throw new ServiceError('uploadInUse', detail);
  }
  await owned.remove(upload);
  end(ctx, 204);
};

/** The routes of uploads, in the terms of tus 1.0 (docs/http.md, Uploads). */
export const uploadRoutes = (deps: UploadDeps) =>
  ({
    uploadTerms: showTerms(deps),
    beginUpload: begin(deps),
    upload: show(deps),
    appendUpload: append(deps),
    removeUpload: remove(deps),
  }) satisfies Partial<Record<RouteName, RouterMiddleware>>;
