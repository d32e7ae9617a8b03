import { stat } from 'node:fs/promises';
import path from 'node:path';
import type { RouterContext } from '@koa/router';
import send from 'send';
import { type ErrorBody, ServiceError } from '../../contract/errors.js';
import type { JobService } from '../jobs/service.js';
import { captured } from './captures.js';
import { whenGone } from './when-gone.js';

/** Bytes read from a result at once. */
const chunkSize = 1 << 20;

/** What the result endpoint answers with while, or because, there is no archive. */
const withoutResult = { queued: 202, waiting: 202, running: 202, error: 500, killed: 409 } as const;

interface SendError {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** What `send` cannot answer: a range that there is not (416), another archive than the one wanted (412). */
function refuse({ res }: RouterContext, { status = 500, headers = {} }: SendError): void {
  if (res.headersSent) {
    res.destroy();
    return;
  }
  for (const name of res.getHeaderNames()) res.removeHeader(name);
  for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
  res.statusCode = status;
  res.setHeader('Content-Type', 'application/json; charset=utf-8');
  const detail =
    status === 416
      ? 'The result has no such range; ask for it whole'
      : 'The result is not the one you asked for';
  res.end(JSON.stringify({ detail } satisfies ErrorBody));
}

/** `GET /jobs/{id}/result`: the archive, whole or by ranges; HEAD, Range and ETag as HTTP means them. */
export const sendResult = (jobs: JobService) => async (ctx: RouterContext) => {
  const job = jobs.get(captured(ctx));
  if (job.state !== 'done') {
    const { job_id, status, error } = job.view();
    ctx.status = withoutResult[job.state];
    ctx.body = ctx.status === 202 ? { job_id, status } : { job_id, status, error };
    return;
  }
  const letGo = jobs.holdResult(job);
  whenGone(ctx, letGo);
  const { size } = await stat(job.directory.result).catch(() => {
    throw new ServiceError('expired', `The result of job ${job.id} is removed; submit it again`);
  });
  ctx.respond = false;
  ctx.res.statusCode = 200;
  ctx.res.setHeader('Content-Type', 'application/zip');
  ctx.res.setHeader('Content-Disposition', 'attachment; filename="result.zip"');
  ctx.res.setHeader('ETag', `"${job.id}-${size}"`);
  ctx.res.setHeader('Cache-Control', 'no-store');
  const options = { dotfiles: 'allow', cacheControl: false, highWaterMark: chunkSize } as send.SendOptions;
  // The name in an address is decoded, the root is not: it may be called anything.
  send(ctx.req, path.basename(job.directory.result), { ...options, root: job.directory.path })
    .on('error', (cause: SendError) => refuse(ctx, cause))
    .pipe(ctx.res);
};
