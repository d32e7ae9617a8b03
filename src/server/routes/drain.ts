import type { RouterContext } from '@koa/router';
import type { DrainState } from '../../contract/system.js';
import { requireAdmin } from '../http/auth.js';
import type { JobService } from '../jobs/service.js';

export const showDraining = (jobs: JobService) => (ctx: RouterContext) => {
  requireAdmin(ctx, 'This asks how many jobs of all are active');
  ctx.body = jobs.drainState satisfies DrainState;
};

/** `POST /drain` and `DELETE /drain`. */
export const setDraining = (jobs: JobService, isDraining: boolean) => (ctx: RouterContext) => {
  requireAdmin(ctx, 'This says whether the server accepts new jobs');
  jobs.drain(isDraining);
  ctx.body = jobs.drainState satisfies DrainState;
};
