import type { RouterContext } from '@koa/router';
import type { JobList, RemovedJob } from '../../contract/job.js';
import type { JobService } from '../jobs/service.js';
import { captured } from './path-parameters.js';

export const listJobs = (jobs: JobService) => (ctx: RouterContext) => {
  ctx.body = { jobs: jobs.list().map((job) => job.view()) } satisfies JobList;
};

export const showJob = (jobs: JobService) => (ctx: RouterContext) => {
  ctx.body = jobs.get(captured(ctx)).view();
};

export const killJob = (jobs: JobService) => async (ctx: RouterContext) => {
  ctx.body = await jobs.kill(jobs.get(captured(ctx)));
};

/** `DELETE /jobs/{id}`: answers when the job and its files are gone. */
export const removeJob = (jobs: JobService) => async (ctx: RouterContext) => {
  const job = jobs.get(captured(ctx));
  await jobs.remove(job);
  ctx.body = { job_id: job.id, status: 'removed' } satisfies RemovedJob;
};
