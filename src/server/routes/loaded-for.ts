import type { RouterContext } from '@koa/router';
import type { Executor, LoadedApp } from '../executors/index.js';
import { principalOf } from '../http/index.js';

/** The loaded apps that matter to whoever asks: those for their own jobs; for an admin all, since each holds memory. */
export function loadedFor(ctx: RouterContext, executor: Executor): readonly LoadedApp[] {
  const { name, role } = principalOf(ctx);
  return (executor.loaded?.() ?? []).filter(({ owner }) => role === 'admin' || owner === name);
}
