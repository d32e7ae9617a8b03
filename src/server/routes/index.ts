import Router from '@koa/router';
import { operationNames, operationOf } from '../../contract/operations.js';
import { routes } from '../../contract/routes.js';
import type { GpuInventory } from '../devices/gpu-inventory.js';
import type { Report } from '../report.js';
import { listApps, sendAppConfig, showApp } from './apps.js';
import { killJob, listJobs, showJob } from './jobs.js';
import { type LogDeps, streamLogs } from './logs.js';
import { sendResult } from './result.js';
import { type SubmitDeps, submit } from './submit.js';
import { devices, health, ram, vram } from './system.js';

/** What the routes need; they make none of it. */
export interface RouteDeps extends SubmitDeps, LogDeps {
  readonly gpus: GpuInventory;
  readonly report: Report;
}

/** An app's identifier takes the rest of the path: raw slashes are part of it, percent-encoded ones too. */
const under = (base: string, end = '') => new RegExp(`^${base}/(.+)${end}$`);

const segments = operationNames.map((name) => operationOf(name).segment).join('|');

/** The API, as spec.md lists it. */
export function createRouter(deps: RouteDeps): Router {
  const { catalog, gpus, jobs, report } = deps;
  const router = new Router();

  router.get(routes.health, health);
  router.get(routes.devices, devices(gpus));
  router.get(routes.ram, ram);
  router.get(routes.vram, vram(gpus));

  router.get(routes.apps, listApps(catalog));
  router.get(under(routes.appConfig), sendAppConfig(catalog, report));
  router.get(under(routes.app), showApp(catalog));

  router.post(under(routes.submit, `/(${segments})`), submit(deps));

  router.get(routes.jobs, listJobs(jobs));
  router.get(/^\/jobs\/([^/]+)$/, showJob(jobs));
  router.get(/^\/jobs\/([^/]+)\/logs$/, streamLogs(deps));
  router.get(/^\/jobs\/([^/]+)\/result$/, sendResult(jobs, report));
  router.post(/^\/jobs\/([^/]+)\/kill$/, killJob(jobs));
  return router;
}
