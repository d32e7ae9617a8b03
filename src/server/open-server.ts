import { systemClock } from '../files/index.js';
import { areReplaced } from '../runner/index.js';
import { Access } from './access/index.js';
import { AllowedApps, AppCatalog, residentEngine } from './apps/index.js';
import { openAuditLog } from './audit/index.js';
import { lockDataDirectory, prepareDataDirectory } from './data-directory/index.js';
import type { GpuInventory } from './devices/index.js';
import type { ServerEvents } from './events.js';
import { halfLife, type LocalExecutor } from './executors/local/index.js';
import { hubSettings, Repositories } from './hub/index.js';
import { JobService } from './jobs/index.js';
import { checkOnEnd, deviceNames, OnEnd } from './on-end.js';
import { environmentWithoutTokens, openExecutor } from './open-executor.js';
import type { Report } from './report.js';
import type { SandboxReport, ServeContext } from './running-server.js';
import {
  blindSpots,
  checkSecrets,
  type FoundSandbox,
  programPlaces,
  sandboxRules,
  type Visible,
} from './sandbox/index.js';
import { maxKeptJobs, type ServerSettings } from './settings.js';
import { checkIdentity } from './submissions/index.js';
import { UploadStore } from './uploads/index.js';
import { UsageLedger } from './usage/index.js';

/** Opens the allowed apps, and the repositories that some of them come from. @throws SetupError */
function openApps(settings: ServerSettings, { say, report }: ServeContext, events: ServerEvents) {
  const apps = new AllowedApps(settings.apps, {
    changed: (change) => events.announce('apps', change),
    failed: report,
  });
  const { download, environment } = settings;
  let hub: ReturnType<typeof hubSettings> | undefined;
  const repositories = new Repositories({
    // Read only if an app comes from a repository, because wrong hub settings must not stop any other server.
    get settings() {
      hub ??= hubSettings(environment);
      return hub;
    },
    download,
    say,
  });
  const { engine, namedApps, residentEngines } = settings;
  const loader =
    residentEngines === null ? null : residentEngine(engine, environment.PATH ?? '', residentEngines);
  return {
    catalog: new AppCatalog(apps, engine, repositories, environment, namedApps, loader),
    repositories,
  };
}

/** Returns a function that tells whether an upgrade has replaced the programs that run jobs, and reports that once. */
function upgradeWatch(report: Report): () => boolean {
  let isReported = false;
  return () => {
    if (!areReplaced()) return false;
    if (!isReported) {
      const until = 'until then running jobs continue, waiting jobs wait, and new jobs are refused';
      report('The program was upgraded while the server was running: restart the server', until);
    }
    isReported = true;
    return true;
  };
}

interface OpenContext extends Pick<ServeContext, 'openExecutor' | 'clock'> {
  readonly access: Access;
  readonly catalog: AppCatalog;
  readonly events: ServerEvents;
  readonly report: Report;
}

/**
 * Reads what jobs used before this start. It is part of the descriptions of apps, and the executor needs it so that a restart
 * does not change whose turn is next.
 */
async function rememberUse(local: LocalExecutor | null, usage: UsageLedger): Promise<void> {
  await usage.each(0, (used) => {
    usage.observe(used);
    const ago = Math.max(0, Date.now() - Date.parse(used.time));
    // Older use is negligible.
    if (ago < 8 * halfLife) local?.remember(used.owner, used.gpu_seconds * 1000, ago);
  });
}

/** Opens the hook that runs the admin's program for each job that ends; null without `--on-end`. @throws SetupError */
function openOnEnd(
  settings: ServerSettings,
  jobs: JobService,
  gpus: GpuInventory | null,
  report: Report,
): OnEnd | null {
  const { onEnd, environment } = settings;
  if (onEnd === null) return null;
  checkOnEnd(onEnd, environment.PATH ?? '');
  return new OnEnd({
    command: onEnd,
    environment: environmentWithoutTokens(settings),
    deviceNames: (end) => deviceNames(end, gpus?.current ?? []),
    begin: (end) => jobs.beginEndNotice(end),
    report,
  });
}

/** Opens the uploads that submissions may name; null if the server stores none. @throws SetupError */
function openUploads(
  { dataDirectory, keepUploads, requireDeidentified }: ServerSettings,
  { access, events, report, clock = systemClock }: OpenContext,
): UploadStore | null {
  const inspect = requireDeidentified ? (file: string) => checkIdentity(file, 'The upload') : undefined;
  const uploads = new UploadStore({ dataDirectory, keep: keepUploads, clock, events, report, inspect });
  // If none are kept, those of an earlier server are removed.
  uploads.load(keepUploads === 0 ? [] : access.owners());
  if (keepUploads === 0) return null;
  events.on('tokens', () => uploads.keepOnly(access.owners()));
  return uploads;
}

/** Opens the jobs of a server, and the executor that runs them, without starting any job. @throws SetupError */
async function openJobs(settings: ServerSettings, context: OpenContext) {
  const { access, catalog, events, report, clock = systemClock } = context;
  const isUpgraded = upgradeWatch(report);
  const open = context.openExecutor ?? openExecutor;
  const opened = await open(settings, { limits: access, isUpgraded, events, report });
  const { executor, local } = opened;
  try {
    if (opened.found.sandbox) checkSecrets(sandboxRules(settings), catalog.directories(), settings.engine);
    events.on('tokens', () => executor.reconsider());
    events.on('drained', ({ isDraining }) => local?.drain(isDraining));
    const usage = new UsageLedger(settings.dataDirectory, report);
    await rememberUse(local, usage);
    usage.follow(events);
    const uploads = openUploads(settings, context);
    const jobs = new JobService({
      ...settings,
      executor,
      uploads,
      apps: catalog,
      limits: access,
      maxKeptJobs,
      areEndsNoticed: settings.onEnd !== null,
      isUpgraded,
      events,
      clock,
      report,
    });
    const onEnd = openOnEnd(settings, jobs, opened.gpus, report);
    onEnd?.follow(events);
    return { ...opened, jobs, uploads, usage, onEnd };
  } catch (cause) {
    opened.gpus?.close();
    throw cause;
  }
}

/** The parts of the engine that jobs can see: its program, and the Python environment that the program belongs to. */
const enginePlaces = ({ engine: [program = ''], environment }: ServerSettings): Visible[] =>
  programPlaces(program, environment.PATH ?? '').map((place) => ({ path: place, isWritable: false }));

/** The sandbox, as it is reported to the admin; null with `--sandbox off`. */
function reportSandbox(
  found: FoundSandbox,
  settings: ServerSettings,
  catalog: AppCatalog,
): SandboxReport | null {
  if (settings.sandbox === 'off') return null;
  const { binds, download, jobLimits: limits, passEnvironment } = settings;
  const none = { version: null, problem: '', unfiltered: '', binds, limits, blindSpots: [], offline: [] };
  if (!found.sandbox) return { ...none, problem: found.problem };
  return {
    ...none,
    version: found.version,
    unfiltered: found.unfiltered,
    blindSpots: blindSpots({
      environment: settings.environment,
      binds: [...binds, ...enginePlaces(settings)],
      added: passEnvironment,
      apps: catalog.directories().map((directory) => ({ directory, program: catalog.programIn(directory) })),
      secrets: sandboxRules(settings),
    }),
    offline: download ? [] : catalog.offlineRepositories(),
  };
}

/** Warns the admin if the sandbox prevents apps from staying loaded. */
async function warnOfReloading(
  local: LocalExecutor | null,
  catalog: AppCatalog,
  report: Report,
): Promise<void> {
  if (!local || !catalog.ids().some((id) => catalog.residentName(id) !== null)) return;
  const problem = await local.residentProblem();
  if (problem === null) return;
  report(
    'Resident apps are started for each job, because the sandbox cannot show them one job after another',
    problem,
  );
}

/** Everything that a server has opened before it answers its first request. */
export type OpenedServer = Awaited<ReturnType<typeof openServer>>;

/**
 * Opens everything that a server needs: apps, data directory, tokens, audit log, executor and jobs. Starts no job.
 * @throws SetupError, or the system's error of the data directory
 */
export async function openServer(given: ServerSettings, context: ServeContext, events: ServerEvents) {
  const { report, hurry } = context;
  const { catalog, repositories } = openApps(given, context, events);
  const settings = { ...given, dataDirectory: prepareDataDirectory(given.dataDirectory) };
  const audit = openAuditLog(settings.auditLog, events, report);
  const access = new Access(settings, events, report);
  const unlock = lockDataDirectory(settings.dataDirectory);
  /** Releases the files that only one server may use. */
  const release = () => {
    audit?.close();
    unlock();
  };
  let opened: Awaited<ReturnType<typeof openJobs>> | null = null;
  /** Closes everything, and does nothing to the jobs. */
  const abandon = async () => {
    opened?.gpus?.close();
    await repositories.close();
    release();
  };
  try {
    opened = await openJobs(settings, { ...context, access, catalog, events });
    if (settings.download) await repositories.fetchAll(hurry);
  } catch (cause) {
    await abandon();
    throw cause;
  }
  const { executor, local, gpus, cluster, found, jobs, uploads, usage, onEnd } = opened;
  return {
    ...{ access, audit, catalog, jobs, uploads, executor, usage, gpus, cluster },
    dataDirectory: settings.dataDirectory,
    sandboxReport: () => reportSandbox(found, settings, catalog),
    /** Starts the jobs and the background tasks. */
    start: () => {
      for (const end of jobs.unnoticedEnds()) onEnd?.enqueue(end);
      jobs.resume();
      uploads?.start();
      repositories.start();
      void warnOfReloading(local, catalog, report);
    },
    /** Kills the jobs or leaves them running, according to `--on-exit`, and ends the background tasks. */
    stop: async () => {
      gpus?.close();
      const repositoriesClosed = repositories.close();
      uploads?.close();
      await jobs.close(settings.onExit);
      await onEnd?.close();
      await local?.close();
      await repositoriesClosed;
    },
    release,
    abandon,
  };
}
