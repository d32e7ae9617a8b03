import { stat } from 'node:fs/promises';
import type { RouterContext } from '@koa/router';
import send from 'send';
import { ServiceError } from '../../contract/errors.js';
import type { JobList } from '../../contract/job.js';
import type { JobService } from '../jobs/service.js';
import { captured } from './captures.js';

/** Bytes read from a result at once. */
const chunkSize = 1 << 20;

export const listJobs = (jobs: JobService) => (ctx: RouterContext) => {
  ctx.body = { jobs: jobs.list().map((job) => job.view()) } satisfies JobList;
};

export const showJob = (jobs: JobService) => (ctx: RouterContext) => {
  ctx.body = jobs.get(captured(ctx)).view();
};

export const killJob = (jobs: JobService) => async (ctx: RouterContext) => {
  ctx.body = await jobs.kill(jobs.get(captured(ctx)));
};

/** What the result endpoint answers with while, or because, there is no archive. */
const withoutResult = { queued: 202, waiting: 202, running: 202, error: 500, killed: 409 } as const;

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
  ctx.res.once('close', letGo);
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
  send(ctx.req, job.directory.result, options)
    .on('error', () => ctx.res.destroy())
    .pipe(ctx.res);
};
