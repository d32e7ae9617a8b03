import { closeSync, constants, existsSync, fstatSync, type ReadStream } from 'node:fs';
import path from 'node:path';
import type { RouterContext } from '@koa/router';
import send from 'send';
import { countFiles, packTo } from '../../archive/index.js';
import {
  type EndedJob,
  errorKinds,
  internalError,
  isFinal,
  mediaTypes,
  parameters,
  refusedResult,
  resultName,
  ServiceError,
  type UnfinishedJob,
  withoutResult,
} from '../../contract/index.js';
import { errorCode, isRealDirectory, NotOurFile, openOwnFile } from '../../files/index.js';
import { captured, goneSignal, isAskedFor, principalOf, sendError, whenGone } from '../http/index.js';
import type { Job, JobService } from '../jobs/index.js';
import type { Report } from '../report.js';

/** Starts an answer that is a zip archive, sent without Koa. */
function setArchiveHeaders(ctx: RouterContext): void {
  ctx.respond = false;
  ctx.res.statusCode = 200;
  ctx.res.setHeader('Content-Type', mediaTypes.zip);
  ctx.res.setHeader('Content-Disposition', `attachment; filename="${resultName}"`);
  ctx.res.setHeader('Cache-Control', 'no-store');
}

/**
 * The `If-Match` of a request for a file, without weak tags: `send` would accept them, but they never match here (RFC 9110,
 * 13.1.1).
 * @returns undefined if the header is missing
 */
const askedMatch = (ifMatch: string | undefined): string | undefined =>
  ifMatch
    ?.split(',')
    .map((tag) => tag.trim().replace(/^W\/.*/, '""'))
    .join(', ');

/**
 * The `Range` of a request for a file, for `send`, which differs from RFC 9110 in two places: it answers 416 to a suffix
 * (`-N`, the last N bytes) that is longer than the file, which means all of it (14.1.2), and treats a weak `If-Range` as
 * a match, which it never is (13.1.5).
 * @param size bytes of the file
 * @returns an empty text to send all of it
 */
function askedRange(range: string, ifRange: string, size: number): string {
  if (ifRange.startsWith('W/')) return '';
  return range.replaceAll(/(?<=[=,]\s*-)\d+/g, (length) => String(Math.min(Number(length), size)));
}

/** Packs a job's output while sending it. Its length is not known in advance, so ranges are not supported. */
async function sendOutput(ctx: RouterContext, job: Job, report: Report): Promise<void> {
  const { id, directory } = job;
  setArchiveHeaders(ctx);
  ctx.res.setHeader('Accept-Ranges', 'none');
  if (ctx.method === 'HEAD') {
    ctx.res.end();
    return;
  }
  const signal = goneSignal(ctx);
  ctx.res.once('finish', () => job.noteFetched());
  await packTo(ctx.res, directory.output, { openUp: true, signal }).catch((cause) => {
    // A normal end would look like the end of the archive.
    ctx.res.destroy();
    if (!ctx.req.socket.destroyed) report(`The output of job ${id} could not be sent`, cause);
  });
}

/** Number of bytes of a result that are read at once. */
const chunkSize = 1 << 20;

interface SendError extends Error {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The error for a status of `send`: the range does not exist, or the archive is not the requested one. */
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

/** The position in the archive at which an answer's bytes begin. */
const startOf = ({ res }: RouterContext): number =>
  Number(/^bytes (\d+)-/.exec(String(res.getHeader('Content-Range') ?? ''))?.[1] ?? 0);

const descriptors = '/proc/self/fd';

/** Sends the packed archive. Returns false if there is none. */
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
  // Named by its descriptor, if the system has paths for descriptors, because the file may be replaced under its name after it
  // was checked.
  const isNamed = existsSync(descriptors);
  const name = isNamed ? String(file) : path.basename(job.directory.result);
  // `send` decodes the name but not the root, which may contain any character.
  send(ctx.req, name, { ...options, root: isNamed ? descriptors : job.directory.path })
    .on('error', (cause: SendError) => refuse(ctx, cause, report))
    // `send` does not notice that a client has disconnected while its answer waits for the previous one.
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
 * Opens the packed result. Null if there is none, if it is no longer readable, or if something other than a regular file has
 * replaced it; that file is then left alone.
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
 * `GET /jobs/{id}/result`: the archive, whole or by ranges, with HEAD, Range and ETag as in HTTP. With `?partial=1`, also
 * what a failed or killed job left.
 */
export const sendResult = (jobs: JobService, report: Report) => async (ctx: RouterContext) => {
  const job = jobs.get(captured(ctx), principalOf(ctx));
  const isAsked = isAskedFor(ctx, parameters.partial);
  const isLeft = isAsked && job.isFinal && job.state !== 'done';
  if (job.state !== 'done' && !isLeft) {
    const { job_id, status, error, kind } = job.view();
    ctx.status = job.record.isRefused ? refusedResult : withoutResult[job.state];
    ctx.body = isFinal(status)
      ? ({ job_id, status, error, kind } satisfies EndedJob)
      : ({ job_id, status } satisfies UnfinishedJob);
    return;
  }
  if (ctx.req.socket.destroyed) {
    ctx.respond = false;
    return;
  }
  whenGone(ctx, jobs.delayExpiry(job));
  if (!isLeft && sendArchive(ctx, job, report)) return;
  // There is no archive: the disk had no space for one, or it was removed or replaced.
  const hasOutput = isRealDirectory(job.directory.output);
  if (isLeft && !(hasOutput && (await countFiles(job.directory.output, 1)) > 0))
    throw new ServiceError('nothingLeft', `Job ${job.id} left no file in its output`);
  if (!hasOutput)
    throw new ServiceError('expired', `The result of job ${job.id} is removed; submit it again`);
  await sendOutput(ctx, job, report);
};
