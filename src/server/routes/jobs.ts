import type { RouterContext } from '@koa/router';
import { type JobList, parameters, type RemovedJob } from '../../contract/index.js';
import { captured, isAskedFor, principalOf, requireAdmin } from '../http/index.js';
import type { JobService } from '../jobs/index.js';

/** `GET /jobs`: the sender's own; with `?all=1` everybody's, for an admin; with `?tag=T` those of that tag. */
export const listJobs = (jobs: JobService) => (ctx: RouterContext) => {
  const isAll = isAskedFor(ctx, parameters.all);
  if (isAll) requireAdmin(ctx, 'list the jobs of all owners');
  const listed = (isAll ? jobs.list() : jobs.listOf(principalOf(ctx).name)).map((job) => job.view());
  const tag = [ctx.query[parameters.tag.name] ?? ''].flat().join().trim();
  ctx.body = { jobs: tag === '' ? listed : listed.filter((view) => view.tag === tag) } satisfies JobList;
};

/** Milliseconds that the answer about a job that has ended waits for the version of its app. */
const versionWait = 2000;

/** `GET /jobs/{id}`. A client that asks after the end asks no more, so only then is the version waited for. */
export const showJob = (jobs: JobService) => async (ctx: RouterContext) => {
  const job = jobs.get(captured(ctx), principalOf(ctx));
  if (job.isFinal) await job.versionKnown(versionWait);
  ctx.body = job.view();
};

export const killJob = (jobs: JobService) => async (ctx: RouterContext) => {
  ctx.body = await jobs.kill(jobs.get(captured(ctx), principalOf(ctx)));
};

/** `DELETE /jobs/{id}`: answers when the job and its files are gone. */
export const removeJob = (jobs: JobService) => async (ctx: RouterContext) => {
  const job = jobs.get(captured(ctx), principalOf(ctx));
  await jobs.remove(job);
  ctx.body = { job_id: job.id, status: 'removed' } satisfies RemovedJob;
};
