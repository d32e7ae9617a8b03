import type { RouterContext } from '@koa/router';
import { mayReach } from '../../access/index.js';
import { FieldError, parameters, quoteName, type Usage } from '../../contract/index.js';
import { principalOf, requireAdmin } from '../http/index.js';
import type { JobService } from '../jobs/index.js';
import type { UsageLedger } from '../usage/index.js';
import { isAskedFor } from './boolean-parameter.js';

/** A date, or a time with its zone: without one it would be read in the zone of the server, which nobody else knows. */
const timePattern = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/;

/**
 * Milliseconds of the time in the query, those of a date as one in UTC; 0 without one.
 * @throws FieldError
 */
function sinceOf(ctx: RouterContext): number {
  const { name } = parameters.usedSince;
  const text = ctx.query[name];
  if (text === undefined) return 0;
  const time = typeof text === 'string' && timePattern.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(time)) {
    throw new FieldError(
      name,
      `must be a date such as 2026-11-01, or a time with its zone such as 2026-11-01T00:00:00Z, got ${quoteName(String(text))}`,
    );
  }
  return time;
}

/** `GET /usage`: an admin gets that of all, a user their own, and none with `?all=1`. */
export const showUsage = (ledger: UsageLedger, jobs: JobService) => async (ctx: RouterContext) => {
  const asker = principalOf(ctx);
  if (isAskedFor(ctx, parameters.all)) requireAdmin(ctx, 'This asks for the use of all');
  const since = sinceOf(ctx);
  const usage = await ledger.summary(since, (owner) => mayReach(asker, owner), await jobs.kept());
  ctx.body = { since: since === 0 ? null : new Date(since).toISOString(), usage } satisfies Usage;
};
