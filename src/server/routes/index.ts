import Router, { type RouterMiddleware } from '@koa/router';
import { eachOperation, type RouteName, routeNames, routes } from '../../contract/index.js';
import { Turns } from '../../files/index.js';
import type { Executor } from '../executors/index.js';
import type { Report } from '../report.js';
import type { ServerSettings } from '../settings.js';
import { DiskSpace } from '../uploads/index.js';
import type { UsageLedger } from '../usage/index.js';
import { askForRefresh, listApps, sendAppConfig, showApp, showRefresh } from './apps.js';
import { killJob, listJobs, removeJob, showJob } from './jobs.js';
import { type LogDeps, sendLog, streamLogs } from './logs.js';
import { sendResult } from './result.js';
import { checkAnnounced, type SubmitDeps, submit } from './submit.js';
import {
  devices,
  health,
  limits,
  metrics,
  ram,
  type ShownMetrics,
  setDraining,
  showDraining,
  showUsage,
  vram,
} from './system.js';
import { uploadRoutes } from './uploads.js';

/** The dependencies of the routes. */
export interface RouteDeps extends Omit<SubmitDeps, 'disk' | 'largeArchives' | 'largeJson'>, LogDeps {
  readonly executor: Executor;
  readonly limits: ServerSettings;
  /** Null if there are none. */
  readonly metrics: ShownMetrics | null;
  readonly usage: UsageLedger;
  readonly dataDirectory: string;
  readonly report: Report;
}

/**
 * A pattern that matches exactly this path. Given a string, the router would also accept capitals and a trailing slash, which a
 * proxy's rule for the path may not cover. An app's id takes the rest of the path, including slashes, raw or percent-encoded.
 */
function matcher(path: string): RegExp {
  const source = path
    .replace('{app}', '(.+)')
    .replace('{id}', '([^/]+)')
    .replace('{sha256}', '([0-9a-f]{64})');
  return new RegExp(`^${source}$`);
}

/** Creates the router of the API, with the handler of each route in the table. */
export function createRouter(deps: RouteDeps): Router {
  const { catalog, executor, jobs, report, dataDirectory } = deps;
  const disk = new DiskSpace(dataDirectory, jobs);
  const uploading = { ...deps, disk, largeArchives: new Turns(1), largeJson: new Map() };
  const handlers: Readonly<Record<RouteName, RouterMiddleware>> = {
    health: health(executor),
    devices: devices(executor, jobs),
    ram,
    vram: vram(executor),
    limits: limits(deps.limits, checkAnnounced(deps)),
    metrics: metrics(deps.metrics),
    apps: listApps(catalog, executor),
    app: showApp(catalog, deps.usage),
    appConfig: sendAppConfig(catalog, report),
    refresh: askForRefresh(catalog),
    refreshed: showRefresh(catalog),
    ...eachOperation((operation) => submit(operation, uploading)),
    ...uploadRoutes(uploading),
    usage: showUsage(deps.usage, jobs, deps.uploads),
    jobs: listJobs(jobs),
    job: showJob(jobs),
    logs: streamLogs(deps),
    log: sendLog(jobs),
    result: sendResult(jobs, report),
    kill: killJob(jobs),
    remove: removeJob(jobs),
    drain: setDraining(jobs, executor, true),
    draining: showDraining(jobs, executor),
    undrain: setDraining(jobs, executor, false),
  };
  const router = new Router();
  for (const name of routeNames) {
    const { method, path } = routes[name];
    router.register(matcher(path), [method], handlers[name], { name, pathAsRegExp: true });
  }
  return router;
}
