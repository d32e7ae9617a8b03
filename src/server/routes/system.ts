import type { RouterContext } from '@koa/router';
import { mayReach } from '../../access/index.js';
import {
  type DeviceJob,
  type DeviceList,
  type DrainState,
  FieldError,
  healthy,
  type Limits,
  type MemoryUse,
  metricsType,
  parameters,
  quoteName,
  ServiceError,
  type Usage,
} from '../../contract/index.js';
import type { Executor, WorkerInfo } from '../executors/index.js';
import { isAskedFor, principalOf, requireAdmin } from '../http/index.js';
import type { Job, JobService } from '../jobs/index.js';
import { gigabyte, readRam } from '../ram.js';
import type { ServerSettings } from '../settings.js';
import type { UploadStore } from '../uploads/index.js';
import type { UsageLedger } from '../usage/index.js';

/** The workers to show to the sender: those that the sender's jobs may use; all for an admin, because each takes memory. */
export function workersFor(ctx: RouterContext, executor: Executor): readonly WorkerInfo[] {
  const { name, role, apps } = principalOf(ctx);
  const mayUse = ({ owner, isShared, name: app }: WorkerInfo) =>
    isShared ? (apps?.includes(app) ?? true) : owner === name;
  return (executor.workers?.() ?? []).filter((each) => role === 'admin' || mayUse(each));
}

export const health = (executor: Executor) => (ctx: RouterContext) => {
  const faults = executor.faults?.() ?? [];
  ctx.body = faults.length === 0 ? healthy : { ...healthy, faults };
};

export const devices = (executor: Executor, jobs: JobService) => async (ctx: RouterContext) => {
  const all = await executor.devices();
  const isCluster = all.some(({ node }) => node !== undefined);
  const principal = principalOf(ctx);
  const shown = ({ id, request: { owner } }: Job): DeviceJob =>
    mayReach(principal, owner) ? { job_id: id, owner } : {};
  const oldestFirst = jobs.list().reverse();
  const holders = all.map((device) =>
    device.isFree ? [] : oldestFirst.filter((job) => job.holds(device)).map(shown),
  );
  const loaded = workersFor(ctx, executor);
  const on = (id: number) => loaded.filter(({ gpus }) => gpus.includes(id)).map(({ name }) => name);
  const onCpu = loaded.filter(({ gpus }) => gpus.length === 0).map(({ name }) => name);
  ctx.body = {
    devices_index: all.map(({ id }) => id),
    devices_name: all.map(({ name }) => name),
    ...(isCluster && { devices_free: all.map(({ isFree }) => isFree) }),
    ...(all.length > 0 &&
      !isCluster && {
        devices_jobs: all.map(({ isFree }, index) => (isFree ? null : (holders[index]?.[0] ?? {}))),
      }),
    ...(holders.some(({ length }) => length > 1) && { devices_shared: holders }),
    ...(all.some(({ out }) => out) && { devices_out: all.map(({ out = null }) => out) }),
    ...(loaded.some(({ gpus }) => gpus.length > 0) && { devices_loaded: all.map(({ id }) => on(id)) }),
    ...(onCpu.length > 0 && { cpu_loaded: onCpu }),
  } satisfies DeviceList;
};

export function ram(ctx: RouterContext): void {
  ctx.body = readRam();
}

/** The ids in `devices=0&devices=1` or `devices=0,1`, without duplicates. */
function requestedIds(ctx: RouterContext, { name }: { readonly name: string }): number[] {
  const texts = [ctx.query[name] ?? []].flat().flatMap((text) => text.split(','));
  const ids = texts.map((text) => {
    if (!/^\d+$/.test(text.trim())) throw new FieldError(name, `must be GPU ids, got ${quoteName(text)}`);
    return Number(text);
  });
  return [...new Set(ids)];
}

export const vram = (executor: Executor) => async (ctx: RouterContext) => {
  const { name } = parameters.devices;
  const ids = requestedIds(ctx, parameters.devices);
  if (ids.length === 0) throw new FieldError(name, 'is required: the GPU ids to report on');
  const { used, total } = await executor.memory(ids);
  ctx.body = { used_gb: used / gigabyte, total_gb: total / gigabyte } satisfies MemoryUse;
};

/** Provides the server's metrics as text. */
export interface ShownMetrics {
  text(): Promise<string>;
}

/** `GET /metrics`: only for admins, because it covers everybody's jobs. */
export const metrics = (shown: ShownMetrics | null) => async (ctx: RouterContext) => {
  requireAdmin(ctx, 'read the metrics');
  if (shown === null) {
    const detail =
      'This server counts no metrics: its admin turns them on with serve --metrics or --metrics-port';
    throw new ServiceError('notFound', detail);
  }
  ctx.set('Content-Type', metricsType);
  ctx.body = await shown.text();
};

/**
 * `GET /limits`: the limits of the server and of the sender.
 * @param check refuses a submission that the query announces
 */
export const limits =
  (shown: ServerSettings, check: (ctx: RouterContext) => Promise<void>) => async (ctx: RouterContext) => {
    await check(ctx);
    const { max_upload, max_jobs, max_gpus, max_kept } = principalOf(ctx).limits;
    const own = max_upload?.max ?? Number.POSITIVE_INFINITY;
    ctx.body = {
      version: shown.version,
      max_file_size: Math.min(own, shown.maxFileSize),
      max_upload_size: Math.min(own, shown.maxUploadSize),
      max_dataset_size: shown.maxDatasetSize && Math.min(own, shown.maxDatasetSize),
      max_jobs: max_jobs?.max ?? null,
      max_gpus: max_gpus?.max ?? null,
      max_kept: max_kept?.max ?? null,
      grace: shown.grace / 1000,
      max_keep: Math.max(shown.grace, shown.maxKeep) / 1000,
      max_run_time: shown.maxRunTime && shown.maxRunTime / 1000,
      max_fine_tune_time: shown.maxFineTuneTime && shown.maxFineTuneTime / 1000,
      require_deidentified: shown.requireDeidentified,
      uploads: shown.keepUploads === 0 ? null : { keep: shown.keepUploads / 1000 },
      of_server: { max_jobs: shown.maxJobs, max_upload_size: shown.maxUploadSize, user: shown.userLimits },
    } satisfies Limits;
  };

const slurmDrains =
  "is for a single machine: a cluster's nodes are drained in Slurm, with 'scontrol update nodename=NODE state=drain reason=...'";

/** Matches a date, or a time with a zone: a time without a zone would be read in the server's. */
const timePattern = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/;

/**
 * The time in the query, in milliseconds; a date means midnight UTC. 0 if the query has none.
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

/** `GET /usage`: of everybody for an admin. Users get only their own, and are refused with `?all=1`. */
export const showUsage =
  (ledger: UsageLedger, jobs: JobService, uploads: UploadStore | null) => async (ctx: RouterContext) => {
    const principal = principalOf(ctx);
    if (isAskedFor(ctx, parameters.all)) requireAdmin(ctx, 'ask for the use of all owners');
    const since = sinceOf(ctx);
    const usage = await ledger.summary(since, (owner) => mayReach(principal, owner), await jobs.kept());
    ctx.body = {
      since: since === 0 ? null : new Date(since).toISOString(),
      usage,
      uploads: (uploads?.usage() ?? []).filter(({ owner }) => mayReach(principal, owner)),
    } satisfies Usage;
  };

/** The answer of the `/drain` routes. Its list of GPUs is empty while the GPUs are not known, and on a cluster. */
async function drainState(jobs: JobService, executor: Executor): Promise<DrainState> {
  const devices = executor.drainGpus ? await executor.devices().catch(() => []) : [];
  return { ...jobs.drainState, gpus: devices.filter(({ out }) => out === 'drained').map(({ id }) => id) };
}

export const showDraining = (jobs: JobService, executor: Executor) => async (ctx: RouterContext) => {
  requireAdmin(ctx, 'ask whether the server is draining');
  ctx.body = await drainState(jobs, executor);
};

/** `POST /drain` and `DELETE /drain`, of the server or of the GPUs in the query. */
export const setDraining =
  (jobs: JobService, executor: Executor, isDraining: boolean) => async (ctx: RouterContext) => {
    requireAdmin(ctx, 'drain the server');
    const ids = requestedIds(ctx, parameters.drainedGpus);
    if (ids.length === 0) jobs.drain(isDraining);
    else if (executor.drainGpus) executor.drainGpus(ids, isDraining);
    else throw new FieldError(parameters.drainedGpus.name, slurmDrains);
    ctx.body = await drainState(jobs, executor);
  };
