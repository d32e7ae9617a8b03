import type { RouterContext } from '@koa/router';
import type { DrainState } from '../../contract/index.js';
import { requireAdmin } from '../http/index.js';
import type { JobService } from '../jobs/index.js';

export const showDraining = (jobs: JobService) => (ctx: RouterContext) => {
  requireAdmin(ctx, 'ask whether the server is draining');
  ctx.body = jobs.drainState satisfies DrainState;
};

/** `POST /drain` and `DELETE /drain`. */
export const setDraining = (jobs: JobService, isDraining: boolean) => (ctx: RouterContext) => {
  requireAdmin(ctx, 'drain the server');
  jobs.drain(isDraining);
  ctx.body = jobs.drainState satisfies DrainState;
};
