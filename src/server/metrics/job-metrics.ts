import { Counter, Histogram, type Registry } from 'prom-client';
import type { ServerEvents } from '../events.js';

/** Upper bounds of the buckets of times, in seconds: from a second to two days. */
const buckets = [1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400, 172_800];

/** Metrics that count what happens: jobs, their times, refusals. Apps are those of the allowlist, so labels are few. */
export function countJobs(events: ServerEvents, registry: Registry): void {
  const registers = [registry];
  const accepted = new Counter({
    name: 'remote_app_jobs_accepted_total',
    help: 'Jobs that were accepted',
    labelNames: ['app', 'operation'] as const,
    registers,
  });
  const ended = new Counter({
    name: 'remote_app_jobs_ended_total',
    help: 'Jobs that have ended, by how: done, error or killed',
    labelNames: ['app', 'operation', 'state'] as const,
    registers,
  });
  const wait = new Histogram({
    name: 'remote_app_queue_wait_seconds',
    help: 'Time from the acceptance of a job until it started, by what it started on: gpu or cpu',
    labelNames: ['device'] as const,
    buckets,
    registers,
  });
  const run = new Histogram({
    name: 'remote_app_run_seconds',
    help: 'Time that a job ran',
    labelNames: ['app', 'operation'] as const,
    buckets,
    registers,
  });
  const gpuTime = new Counter({
    name: 'remote_app_gpu_seconds_total',
    help: 'Time that ended jobs had GPUs, summed over the GPUs',
    labelNames: ['app'] as const,
    registers,
  });
  const refused = new Counter({
    name: 'remote_app_refusals_total',
    help: 'Requests that were answered with an error',
    labelNames: ['status', 'error'] as const,
    registers,
  });
  events.on('accepted', ({ app, operation }) => accepted.inc({ app, operation }));
  events.on('started', ({ gpus, waited }) => {
    wait.observe({ device: gpus.length > 0 ? 'gpu' : 'cpu' }, waited);
  });
  events.on('ended', ({ app, operation, state, seconds, gpus }) => {
    ended.inc({ app, operation, state });
    if (seconds === null) return;
    run.observe({ app, operation }, seconds);
    if (gpus.length > 0) gpuTime.inc({ app }, seconds * gpus.length);
  });
  events.on('refused', ({ status, error }) => refused.inc({ status: String(status), error }));
}
