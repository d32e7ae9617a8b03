import { isSystemError } from '../files/index.js';
import { type AppDeps, createApp } from './app.js';
import { unwritable } from './data-directory/index.js';
import { ServerEvents } from './events.js';
import { checkPorts, HttpService, proxyList, Traffic } from './http/index.js';
import { StreamSlots } from './jobs/index.js';
import { type OpenedServer, openServer } from './open-server.js';
import type { RunningServer, ServeContext } from './running-server.js';
import { maxStreams, maxStreamsOfOwner, type ServerSettings } from './settings.js';

export { isOwnProxy, surviveUncaughtErrors } from './http/index.js';
export type { RunningServer, SandboxReport, ServeContext } from './running-server.js';

/**
 * Starts the service: recovers the jobs in its data directory, then listens.
 * @throws SetupError
 */
export async function serve(settings: ServerSettings, context: ServeContext): Promise<RunningServer> {
  const { report, events = new ServerEvents(report) } = context;
  // Keeps the process alive: most of what the start waits for is unreferenced, and Node would exit halfway.
  const starting = setInterval(() => {}, 60_000);
  try {
    const trustedProxies = proxyList(settings.trustedProxies);
    checkPorts(settings, settings.metricsAt);
    const opened = await openServer(settings, context, events);
    return await serveFrom(opened, settings, { trustedProxies, events, report });
  } catch (cause) {
    // A system error here is caused by the disk of the data directory.
    throw isSystemError(cause) ? unwritable(settings.dataDirectory, cause) : cause;
  } finally {
    clearInterval(starting);
  }
}

/** Adds HTTP to what is already open, and listens. If that fails, everything is closed. */
async function serveFrom(
  opened: OpenedServer,
  settings: ServerSettings,
  { trustedProxies, events, report }: Pick<AppDeps, 'trustedProxies' | 'events' | 'report'>,
): Promise<RunningServer> {
  const { access, audit, catalog, jobs, uploads, executor, gpus, cluster, dataDirectory } = opened;
  const closing = new AbortController();
  try {
    access.follow(closing.signal);
    const slots = new StreamSlots(maxStreams, maxStreamsOfOwner);
    const traffic = new Traffic();
    const sources = { events, jobs, uploads, executor, gpus, slots, traffic, dataDirectory };
    const metrics = settings.metrics ? new (await import('./metrics/index.js')).Metrics(sources) : null;
    const app = createApp({
      ...opened,
      slots,
      metrics,
      host: settings.host,
      trustedProxies,
      proxySecret: settings.proxySecret,
      limits: settings,
      keepAlive: settings.keepAlive,
      closing: closing.signal,
      events,
      report,
    });
    const http = new HttpService({
      handler: app.callback(),
      address: settings,
      metrics: metrics && settings.metricsAt && { ...settings.metricsAt, read: () => metrics.text() },
      traffic,
      report,
    });
    const recovered = await jobs.load();
    const metricsUrl = await http.listenForMetrics();
    const appProblems = await catalog.problems();
    const url = await http.listen();
    // Done only once the server listens, because a server that cannot listen must not touch the jobs. No request is handled in
    // between.
    opened.start();
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
        access.reload();
        return catalog.reload();
      },
      sandbox: opened.sandboxReport(),
      recovered,
      activeJobs: () => jobs.active,
      close: async () => {
        http.stopListening();
        await opened.stop();
        closing.abort();
        await http.close();
        opened.release();
      },
    };
  } catch (cause) {
    closing.abort();
    await opened.abandon();
    throw cause;
  }
}
