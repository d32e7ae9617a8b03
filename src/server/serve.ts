import { closeInherited, isSystemError } from '../files/index.js';
import { Access, NamedTokens } from './access/index.js';
import { createApp } from './app.js';
import { AuditLog, auditEvents } from './audit/index.js';
import {
  checkFileSystem,
  lockDataDirectory,
  prepareDataDirectory,
  unwritable,
} from './data-directory/index.js';
import { ServerEvents } from './events.js';
import { checkPorts, HttpService, proxyList, Traffic, UncaughtErrors } from './http/index.js';
import { StreamSlots } from './jobs/index.js';
import { Metrics } from './metrics/index.js';
import { openApps } from './open-apps.js';
import { openJobs, reportSandbox, sayResident } from './open-jobs.js';
import type { RunningServer, ServeContext } from './running-server.js';
import { maxStreams, type ServerSettings } from './settings.js';

export type { RunningServer, SandboxReport, ServeContext } from './running-server.js';

/**
 * Boots the service: recovers the jobs of its data directory, then listens.
 * @throws SetupError
 */
export async function serve(settings: ServerSettings, context: ServeContext): Promise<RunningServer> {
  const { events = new ServerEvents(context.report) } = context;
  const apps = openApps(settings, context, events);
  closeInherited();
  // The umask must not take permissions from the owner; those of others stay as the admin has set them.
  process.umask(process.umask() & 0o077);
  const dataDirectory = prepareDataDirectory(settings.dataDirectory);
  try {
    return await serveFrom(apps, { ...settings, dataDirectory }, { ...context, events });
  } catch (cause) {
    // A system error here comes from the disk of the data directory.
    throw isSystemError(cause) ? unwritable(settings.dataDirectory, cause) : cause;
  }
}

async function serveFrom(
  { catalog, repositories }: ReturnType<typeof openApps>,
  settings: ServerSettings,
  { report, hurry, events }: ServeContext & { readonly events: ServerEvents },
): Promise<RunningServer> {
  const { auditLog, dataDirectory, metricsAt, tokensFile } = settings;
  const trustedProxies = proxyList(settings.trustedProxies);
  await checkPorts(settings, metricsAt);
  const audit = auditLog === null ? null : new AuditLog(auditLog, report);
  if (audit) auditEvents(events, audit);
  const named =
    tokensFile === null
      ? null
      : new NamedTokens(tokensFile, report, (before, after) => events.tell('tokens', { before, after }));
  const access = new Access(settings.token, named);
  const unlock = lockDataDirectory(dataDirectory);
  const uncaught = new UncaughtErrors(report);
  let opened: Awaited<ReturnType<typeof openJobs>> | null = null;
  // Keeps the process alive: most of what the start waits for is unreferenced, and Node would exit in the middle.
  const starting = setInterval(() => {}, 60_000);
  try {
    checkFileSystem(dataDirectory);
    opened = await openJobs(settings, { access, catalog, events, report });
    const { executor, local, gpus, cluster, found, jobs, usage } = opened;
    if (settings.download) await repositories.fetchAll(hurry);
    const closing = new AbortController();
    named?.follow(closing.signal, () => access.review());
    const slots = new StreamSlots(maxStreams);
    const traffic = new Traffic();
    const metrics = new Metrics({ events, jobs, gpus, slots, traffic, dataDirectory });
    const app = createApp({
      access,
      host: settings.host,
      trustedProxies,
      audit,
      usage,
      catalog,
      jobs,
      executor,
      slots,
      metrics,
      limits: settings,
      keepAlive: settings.keepAlive,
      closing: closing.signal,
      events,
      report,
    });
    const http = new HttpService({
      handler: app.callback(),
      address: settings,
      metricsAt,
      readMetrics: () => metrics.text(),
      traffic,
      report,
    });
    uncaught.install();
    const recovered = await jobs.load();
    const metricsUrl = await http.listenForMetrics();
    const appProblems = await catalog.problems();
    const url = await http.listen();
    // Only after listening: a server that cannot listen must leave the jobs alone. No request is handled in between.
    jobs.resume();
    repositories.start();
    local?.open();
    void sayResident(local, catalog, report);
    clearInterval(starting);
    return {
      url,
      metricsUrl,
      apps: catalog.ids(),
      dataDirectory,
      gpus,
      cluster,
      appProblems,
      problemsOf: (ids) => catalog.problems(ids),
      reload: () => {
        audit?.reopen();
        named?.reload();
        return catalog.reload();
      },
      sandbox: reportSandbox(found, settings, catalog),
      recovered,
      activeJobs: () => jobs.active,
      close: async () => {
        http.stopListening();
        gpus?.close();
        const left = repositories.close();
        await jobs.close(settings.onExit);
        await local?.close();
        await left;
        closing.abort();
        await http.close();
        uncaught.remove();
        audit?.close();
        unlock();
      },
    };
  } catch (cause) {
    clearInterval(starting);
    opened?.gpus?.close();
    await repositories.close();
    uncaught.remove();
    unlock();
    throw cause;
  }
}
