import { once } from 'node:events';
import { statfsSync } from 'node:fs';
import path from 'node:path';
import { Packer } from '../archive/index.js';
import { isSystemError } from '../files/error-code.js';
import { closeInherited } from '../files/own-file.js';
import { areReplaced } from '../runner/index.js';
import { Access } from './access/access.js';
import { NamedTokens } from './access/named-tokens.js';
import { createApp } from './app.js';
import { AllowedApps, AppCatalog, residentEngine } from './apps/index.js';
import { auditEvents, auditTokens } from './audit/audit-events.js';
import { AuditLog } from './audit/audit-log.js';
import { checkFileSystem } from './data-directory/file-system-check.js';
import { lockDataDirectory } from './data-directory/lock.js';
import { prepareDataDirectory, unwritable } from './data-directory/prepare.js';
import { GpuInventory } from './devices/gpu-inventory.js';
import { NvidiaSmi } from './devices/nvidia-smi.js';
import { ServerEvents } from './events.js';
import { halfLife, LocalExecutor } from './executors/local/index.js';
import { type ClusterReport, type OpenSlurmSettings, openSlurm } from './executors/slurm/index.js';
import { proxyList } from './http/client-address.js';
import { httpServer } from './http/http-server.js';
import { LastNet } from './http/last-net.js';
import { checkPorts, listen } from './http/listen.js';
import { metricsServer } from './http/metrics-server.js';
import { Traffic } from './http/traffic.js';
import { hubSettings, Repositories } from './hub/index.js';
import { ExpiredJobs } from './jobs/expired-jobs.js';
import { JobService } from './jobs/service.js';
import { JobStore } from './jobs/store.js';
import { StreamSlots } from './jobs/stream-slots.js';
import { Trash } from './jobs/trash.js';
import { shareOfRam } from './ram.js';
import type { Report } from './report.js';
import {
  blindSpots,
  checkSecrets,
  type FoundSandbox,
  findSandbox,
  programPlaces,
  sandboxRules,
  type Visible,
} from './sandbox/index.js';
import { killGrace, maxLogBytes, maxStreams, type ServerSettings } from './settings.js';
import { UsageLedger } from './usage/usage-ledger.js';

/** Milliseconds that answers under way may take when the server stops. */
const farewell = 1000;

/** What a start has found of sandboxes, for the admin. */
export interface SandboxReport {
  /** Of bubblewrap; null where jobs run without. */
  readonly version: string | null;
  /** Why there is no sandbox; empty if there is one. */
  readonly problem: string;
  /** Why the system calls of jobs are not filtered in their sandbox; empty if they are. */
  readonly unfiltered: string;
  /** What jobs see beside the system, their app and their own files. */
  readonly binds: ServerSettings['binds'];
  /** What one job may use. */
  readonly limits: ServerSettings['jobLimits'];
  /** What leads jobs to places that they do not see, in words. */
  readonly blindSpots: readonly string[];
  /** Repositories that their engine may have to fetch, and cannot. */
  readonly offline: readonly string[];
}

export interface RunningServer {
  /** `http://host:port`. */
  readonly url: string;
  /** The same of the server for metrics; null if there is none. */
  readonly metricsUrl: string | null;
  /** Identifiers of the apps. */
  readonly apps: readonly string[];
  /** Where the jobs are kept: its real path. */
  readonly dataDirectory: string;
  /** Null where jobs run on a cluster. */
  readonly gpus: GpuInventory | null;
  /** Null where jobs run on this machine. */
  readonly cluster: ClusterReport | null;
  /** What the apps and the engine lack, in sentences. */
  readonly appProblems: readonly string[];
  /** The same for these apps. */
  problemsOf(ids: readonly string[]): Promise<readonly string[]>;
  /**
   * Reads the tokens and the apps again, without touching a job.
   * @returns how many there are
   * @throws SetupError; the apps then stay as they were
   */
  reload(): number;
  /** What keeps jobs apart; null where nothing was asked for. */
  readonly sandbox: SandboxReport | null;
  readonly recovered: { readonly ended: number; readonly active: number };
  /** Number of jobs that have not ended. */
  activeJobs(): number;
  /** Stops accepting requests, ends the log streams, kills or leaves the jobs. Resolves when all of it is done. */
  close(): Promise<void>;
}

/** The environment of the runners: the server's own, without the variables that hold a token. */
function runnerEnvironment(tokenVariables: readonly string[]): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !tokenVariables.includes(name)));
}

/** What jobs see of an engine, with the environment of Python or the like that it is part of. */
const enginePlaces = ([program = '']: readonly string[]): Visible[] =>
  programPlaces(program, process.env.PATH ?? '').map((place) => ({ path: place, isWritable: false }));

/** Why jobs of a cluster have no sandbox. */
const noneOnCluster: FoundSandbox = {
  sandbox: null,
  problem:
    'with --executor slurm there is none, since a job in one sees its own GPUs alone, and only their node knows these',
};

function reportSandbox(found: FoundSandbox, settings: ServerSettings, catalog: AppCatalog): SandboxReport {
  const { binds, download, jobLimits: limits, passEnvironment } = settings;
  if (!found.sandbox)
    return {
      version: null,
      problem: found.problem,
      unfiltered: '',
      binds,
      limits,
      blindSpots: [],
      offline: [],
    };
  return {
    version: found.version,
    problem: '',
    unfiltered: found.unfiltered,
    binds,
    limits,
    blindSpots: blindSpots({
      environment: process.env,
      binds: [...binds, ...enginePlaces(settings.engine)],
      added: passEnvironment,
      apps: catalog.directories(),
      secrets: sandboxRules(settings),
    }),
    offline: download ? [] : catalog.offlineRepositories(),
  };
}

/** What a server tells, and by what its start is cut short. */
export interface ServeContext {
  readonly report: Report;
  /** Told of what happens. */
  readonly events?: ServerEvents;
  /** Writes a line for the admin. */
  readonly say: (line: string) => void;
  /** Ends what is fetched before the server listens. */
  readonly hurry: AbortSignal;
}

/** The apps that are allowed, and the repositories that some of them come from. @throws SetupError */
function readApps(settings: ServerSettings, { say, report }: ServeContext, events: ServerEvents) {
  const apps = new AllowedApps(settings.apps, {
    changed: (change) => events.tell('apps', change),
    failed: report,
  });
  const { download } = settings;
  let hub: ReturnType<typeof hubSettings> | undefined;
  const repositories = new Repositories({
    // Read when an app comes from a repository: what is wrong with them harms no other server.
    get settings() {
      hub ??= hubSettings(process.env);
      return hub;
    },
    download,
    say,
  });
  const { engine, networkApps, residentEngines } = settings;
  const loader =
    residentEngines === null ? null : residentEngine(engine, process.env.PATH ?? '', residentEngines);
  return { catalog: new AppCatalog(apps, engine, repositories, networkApps, loader), repositories };
}
type Apps = ReturnType<typeof readApps>;

/**
 * Boots the service: recovers the jobs of its data directory, then listens.
 * @throws SetupError
 */
export async function serve(settings: ServerSettings, context: ServeContext): Promise<RunningServer> {
  const { events = new ServerEvents(context.report) } = context;
  const apps = readApps(settings, context, events);
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

/** The executor of a cluster. @throws SetupError */
async function openCluster(
  { slurm, dataDirectory }: ServerSettings,
  given: Omit<OpenSlurmSettings, 'options' | 'dataDirectory'>,
) {
  if (slurm === null) throw new Error('There is no cluster');
  return await openSlurm({ ...given, options: slurm, dataDirectory });
}

/** Whether an upgrade has replaced the programs that run jobs; says so once. */
function upgradeWatch(report: Report): () => boolean {
  let isTold = false;
  return () => {
    if (!areReplaced()) return false;
    if (!isTold) {
      const until = 'until then jobs that run go on, the others wait, and new ones are refused';
      report('The program was upgraded under the running server: restart it', until);
    }
    isTold = true;
    return true;
  };
}

/** Bytes that a job may write where the admin does not say: a tenth of what is free, at least 10 GiB. */
function usualDiskPerJob(dataDirectory: string): number {
  const { bavail, bsize } = statfsSync(dataDirectory);
  return Math.max(10 * 2 ** 30, (bavail * bsize) / 10);
}

/** Tells the admin where an app that could stay loaded cannot, because of the sandbox. */
async function sayResident(local: LocalExecutor | null, catalog: AppCatalog, report: Report): Promise<void> {
  if (!local || !catalog.ids().some((id) => catalog.residentName(id) !== null)) return;
  const problem = await local.residentProblem();
  if (problem === null) return;
  report(
    'Apps that could stay loaded are started for each job: the sandbox cannot show them one job after the other',
    problem,
  );
}

async function serveFrom(
  { catalog, repositories }: Apps,
  settings: ServerSettings,
  { report, hurry, events }: ServeContext & { readonly events: ServerEvents },
): Promise<RunningServer> {
  const { token, tokensFile } = settings;
  let onTokens = () => {};
  const trustedProxies = proxyList(settings.trustedProxies);
  await checkPorts(settings, settings.metricsAt);
  const audit = settings.auditLog === null ? null : new AuditLog(settings.auditLog, report);
  if (audit) auditEvents(events, audit);
  const named =
    tokensFile === null
      ? null
      : new NamedTokens(tokensFile, report, (before, after) => {
          if (audit) auditTokens(audit, before, after);
          onTokens();
        });
  const access = new Access(token, named);
  // Begun before all else, because a sandbox is tried for longer than the rest of a start takes.
  const sandboxed = settings.slurm ? null : findSandbox(settings.sandbox, sandboxRules(settings));
  // A start that fails for another reason says that one.
  sandboxed?.catch(() => {});
  const unlock = lockDataDirectory(settings.dataDirectory);
  const sayOdd = (oddity: string) =>
    report('nvidia-smi lists the GPUs, which are used, and something is odd', oddity);
  const smi = new NvidiaSmi(undefined, undefined, sayOdd);
  const gpus = settings.slurm ? null : new GpuInventory(process.env.CUDA_VISIBLE_DEVICES, smi);
  const net = new LastNet(report);
  // Keeps the process alive: most of what the start waits for is unreferenced, and Node would exit in the middle.
  const starting = setInterval(() => {}, 60_000);
  try {
    // While nvidia-smi is asked, the file system is checked and a module is loaded.
    const gpusLooked = gpus?.start();
    gpusLooked?.catch(() => {});
    checkFileSystem(settings.dataDirectory);
    const metricsModule = import('./metrics/metrics.js');
    const found = sandboxed ? await sandboxed : noneOnCluster;
    if (found.sandbox) checkSecrets(sandboxRules(settings), catalog.directories(), settings.engine);
    await gpusLooked;
    if (settings.download) await repositories.fetchAll(hurry);
    const { passEnvironment } = settings;
    const mostGpus = (owner: string | null) => access.limitsOf(owner).max_gpus?.most ?? null;
    const mostJobs = (owner: string | null) => access.limitsOf(owner).max_jobs?.most ?? null;
    const environment = runnerEnvironment(settings.tokenVariables);
    const isUpgraded = upgradeWatch(report);
    const given = { environment, killGrace, maxLogBytes, passEnvironment, mostGpus, mostJobs, report };
    const local =
      gpus &&
      new LocalExecutor({
        ...given,
        gpus,
        isUpgraded,
        cpuSlots: settings.cpuSlots,
        sandbox: found.sandbox,
        limits: settings.jobLimits,
        workers: {
          directory: path.join(settings.dataDirectory, 'workers'),
          idle: settings.residentIdle,
          memoryUse: shareOfRam,
        },
        spares: settings.spareRunners,
      });
    const { executor, cluster } = local
      ? { executor: local, cluster: null }
      : await openCluster(settings, given);
    onTokens = () => executor.reconsider();
    events.on('drained', ({ isDraining }) => local?.drain(isDraining));
    const usage = new UsageLedger(settings.dataDirectory, report);
    // What is older weighs next to nothing.
    await usage.each(Date.now() - 8 * halfLife, ({ owner, gpu_seconds, time }) => {
      local?.remember(owner, gpu_seconds * 1000, Math.max(0, Date.now() - Date.parse(time)));
    });
    usage.follow(events);
    const jobs = new JobService({
      store: new JobStore(settings.dataDirectory, report),
      expired: new ExpiredJobs(settings.dataDirectory, report),
      trash: new Trash(settings.dataDirectory, report),
      packer: new Packer(),
      executor,
      commandFor: (job, grant) => catalog.commandFor(job.request, job.directory, grant),
      residentOf: (job, grant) => catalog.residentFor(job.request, grant),
      reachOf: (job) => catalog.reachOf(job.request.app),
      explainExit: (job, exitCode) => catalog.explainExit(job.request.app, exitCode),
      maxJobs: settings.maxJobs,
      diskPerJob: settings.diskPerJob ?? usualDiskPerJob(settings.dataDirectory),
      mostJobs,
      grace: settings.grace,
      maxKeep: settings.maxKeep,
      maxRunTime: settings.maxRunTime,
      maxFineTuneTime: settings.maxFineTuneTime,
      isUpgraded,
      events,
      report,
    });
    const closing = new AbortController();
    named?.follow(closing.signal, () => access.review());
    const slots = new StreamSlots(maxStreams);
    let traffic: Traffic | null = null;
    const metrics = new (await metricsModule).Metrics({
      events,
      // GPUs of a cluster have the ids of their nodes, which say nothing without the node.
      jobs: () =>
        jobs.list().map(({ state, hasDevices, record }) => ({
          state,
          gpus: hasDevices && !cluster ? record.gpus : [],
        })),
      gpus: () => gpus?.current?.map(({ id }) => id) ?? null,
      isDraining: () => jobs.drainState.draining,
      openStreams: () => slots.open,
      transferred: () => traffic?.transferred ?? { received: 0, sent: 0 },
      dataDirectory: settings.dataDirectory,
    });
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
    const server = httpServer(app.callback());
    traffic = new Traffic(server);
    net.install();
    const recovered = await jobs.load();
    const { metricsAt } = settings;
    const ofMetrics = metricsAt && metricsServer(metricsAt.host, () => metrics.text(), report).unref();
    const metricsUrl = ofMetrics && (await listen(ofMetrics, metricsAt.host, metricsAt.port));
    const appProblems = await catalog.problems();
    const url = await listen(server, settings.host, settings.port);
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
      dataDirectory: settings.dataDirectory,
      gpus,
      cluster,
      appProblems,
      problemsOf: (ids) => catalog.problems(ids),
      reload: () => {
        audit?.reopen();
        named?.reload();
        return catalog.reload();
      },
      sandbox: settings.sandbox === 'off' ? null : reportSandbox(found, settings, catalog),
      recovered,
      activeJobs: () => jobs.active,
      close: async () => {
        // The connections may be closed before the last job has ended.
        const quiet = once(server, 'close');
        server.close();
        ofMetrics?.close();
        ofMetrics?.closeAllConnections();
        gpus?.close();
        const left = repositories.close();
        await jobs.close(settings.onExit);
        await local?.close();
        await left;
        closing.abort();
        server.closeIdleConnections();
        const timer = setTimeout(() => server.closeAllConnections(), farewell);
        await quiet;
        clearTimeout(timer);
        net.remove();
        audit?.close();
        unlock();
      },
    };
  } catch (cause) {
    clearInterval(starting);
    gpus?.close();
    await repositories.close();
    net.remove();
    unlock();
    throw cause;
  }
}
