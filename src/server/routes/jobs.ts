import type { RouterContext } from '@koa/router';
import {
  FieldError,
  type JobList,
  maxListed,
  parameters,
  quoteName,
  type RemovedJob,
} from '../../contract/index.js';
import { captured, isAskedFor, principalOf, queryText, requireAdmin } from '../http/index.js';
import type { JobService } from '../jobs/index.js';

/** The number of jobs to list. @throws FieldError */
function limitOf(ctx: RouterContext): number {
  const { name } = parameters.limit;
  const text = ctx.query[name];
  if (text === undefined) return maxListed;
  const limit = typeof text === 'string' && /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= maxListed) return limit;
  throw new FieldError(name, `must be from 1 to ${maxListed}, got ${quoteName(String(text))}`);
}

/**
 * `GET /jobs`: the sender's own; with `?all=1` everybody's, for an admin; with `?tag=T` those with that tag. `?before=ID`
 * continues where an answer to `?limit=N` ended.
 */
export const listJobs = (jobs: JobService) => (ctx: RouterContext) => {
  const principal = principalOf(ctx);
  const isAll = isAskedFor(ctx, parameters.all);
  if (isAll) requireAdmin(ctx, 'list the jobs of all owners');
  const tag = queryText(ctx, parameters.tag).trim();
  const before = queryText(ctx, parameters.before).trim();
  const listed = jobs.page({
    isWanted: ({ request }) =>
      (isAll || request.owner === principal.name) && (tag === '' || request.tag === tag),
    limit: limitOf(ctx),
    before: before === '' ? null : jobs.get(before, principal),
  });
  const others =
    principal.role === 'admin' && !isAll
      ? jobs.list().filter(({ request }) => request.owner !== principal.name).length
      : 0;
  ctx.body = { jobs: listed.map((job) => job.view()), ...(others > 0 && { others }) } satisfies JobList;
};

/** Milliseconds that an answer about an ended job waits for the version of the job's app. */
const versionWait = 2000;

/** `GET /jobs/{id}`. Waits for the version only if the job has ended, because a client does not ask again after that. */
export const showJob = (jobs: JobService) => async (ctx: RouterContext) => {
  const job = jobs.get(captured(ctx), principalOf(ctx));
  if (job.isFinal) await job.versionKnown(versionWait);
  ctx.body = job.view();
};

export const killJob = (jobs: JobService) => async (ctx: RouterContext) => {
  ctx.body = await jobs.kill(jobs.get(captured(ctx), principalOf(ctx)));
};

/** `DELETE /jobs/{id}`. Answers once the job and its files are gone. */
export const removeJob = (jobs: JobService) => async (ctx: RouterContext) => {
  const job = jobs.get(captured(ctx), principalOf(ctx));
  await jobs.remove(job);
  ctx.body = { job_id: job.id, status: 'removed' } satisfies RemovedJob;
};
