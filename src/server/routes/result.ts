import { closeSync, constants, existsSync, fstatSync, type ReadStream } from 'node:fs';
import path from 'node:path';
import type { RouterContext } from '@koa/router';
import send from 'send';
import {
  type EndedJob,
  errorKinds,
  internalError,
  isFinal,
  parameters,
  refusedResult,
  ServiceError,
  type UnfinishedJob,
  withoutResult,
} from '../../contract/index.js';
import { errorCode, NotOurFile, openOwnFile } from '../../files/index.js';
import { captured, principalOf, sendError, whenGone } from '../http/index.js';
import type { Job, JobService } from '../jobs/index.js';
import type { Report } from '../report.js';
import { setArchiveHeaders } from './archive-headers.js';
import { askedMatch, askedRange } from './asked-range.js';
import { isAskedFor } from './boolean-parameter.js';
import { sendLeft, sendUnpacked } from './packed-while-sent.js';

/** Bytes of a result that are read at once. */
const chunkSize = 1 << 20;

interface SendError extends Error {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Errors of `send`: a range that does not exist, or an archive other than the requested one. */
function refusal(status: number | undefined): ServiceError {
  if (status === errorKinds.noSuchRange.status)
    return new ServiceError('noSuchRange', 'The result has no such range; ask for it whole');
  if (status === errorKinds.otherResult.status)
    return new ServiceError('otherResult', 'The result is not the one you asked for');
  return internalError();
}

function refuse({ res }: RouterContext, cause: SendError, report: Report): void {
  if (res.headersSent) {
    res.destroy();
    return;
  }
  const error = refusal(cause.status);
  if (error.code === 'internal') report('A result could not be sent', cause);
  sendError(res, error, cause.headers ?? {});
}

/** Where the bytes of an answer begin in the archive. */
const startOf = ({ res }: RouterContext): number =>
  Number(/^bytes (\d+)-/.exec(String(res.getHeader('Content-Range') ?? ''))?.[1] ?? 0);

const descriptors = '/proc/self/fd';

/** Sends the packed archive. False if there is none. */
function sendArchive(ctx: RouterContext, job: Job, report: Report): boolean {
  const file = openResult(job);
  if (file === null) return false;
  whenGone(ctx, () => closeSync(file));
  const { size } = fstatSync(file);
  setArchiveHeaders(ctx);
  ctx.res.setHeader('ETag', `"${job.id}-${size}"`);
  ctx.req.headers['if-match'] = askedMatch(ctx.req.headers['if-match']);
  ctx.req.headers.range = askedRange(ctx.get('Range'), ctx.get('If-Range'), size);
  const options = { dotfiles: 'allow', cacheControl: false, highWaterMark: chunkSize } as send.SendOptions;
  // By its descriptor if the system has paths for these: the name may be replaced after the file was checked.
  const isNamed = existsSync(descriptors);
  const name = isNamed ? String(file) : path.basename(job.directory.result);
  // `send` decodes the name but not the root, which may contain any character.
  send(ctx.req, name, { ...options, root: isNamed ? descriptors : job.directory.path })
    .on('error', (cause: SendError) => refuse(ctx, cause, report))
    // `send` does not notice that a client has left while its answer waits behind another one.
    .on('stream', (stream: ReadStream) =>
      whenGone(ctx, () => {
        job.noteSent(startOf(ctx), stream.bytesRead, size, ctx.res.writableFinished);
        stream.destroy();
      }),
    )
    .pipe(ctx.res);
  return true;
}

/**
 * Opens the packed result; null if there is none, if its permissions were taken away, or if something other than a regular
 * file has replaced it, which is left as it is.
 */
function openResult(job: Job): number | null {
  try {
    return openOwnFile(job.directory.result, constants.O_RDONLY);
  } catch (cause) {
    if (!(cause instanceof NotOurFile) && !['ENOENT', 'EACCES'].includes(errorCode(cause))) throw cause;
    return null;
  }
}

/**
 * `GET /jobs/{id}/result`: the archive, whole or by ranges; HEAD, Range and ETag as HTTP means them. With `?partial=1` also
 * what a job that failed or was killed left.
 */
export const sendResult = (jobs: JobService, report: Report) => async (ctx: RouterContext) => {
  const job = jobs.get(captured(ctx), principalOf(ctx));
  const isAsked = isAskedFor(ctx, parameters.partial);
  const isLeft = isAsked && job.isFinal && job.state !== 'done';
  if (job.state !== 'done' && !isLeft) {
    const { job_id, status, error } = job.view();
    ctx.status = job.record.isRefused ? refusedResult : withoutResult[job.state];
    ctx.body = isFinal(status)
      ? ({ job_id, status, error } satisfies EndedJob)
      : ({ job_id, status } satisfies UnfinishedJob);
    return;
  }
  if (ctx.req.socket.destroyed) {
    ctx.respond = false;
    return;
  }
  whenGone(ctx, jobs.holdResult(job));
  if (isLeft) await sendLeft(ctx, job, report);
  else if (!sendArchive(ctx, job, report)) await sendUnpacked(ctx, job, report);
};
