import { UsageError } from '../../client/errors.js';
import { counted, exitCodes, isLoopback, routes } from '../../contract/index.js';
import { failureInWords, type GpuInventory } from '../../server/devices/index.js';
import { ServerEvents } from '../../server/events.js';
import { type RunningServer, serve } from '../../server/serve.js';
import type { ServerSettings } from '../../server/settings.js';
import { SetupError } from '../../server/setup-error.js';
import { DirectOutput, replaceStream } from './direct-output.js';
import { logEvents } from './log-events.js';
import type { LogSettings } from './log-flags.js';
import { reload, warnOfNewApps } from './reload.js';
import { sayCluster } from './say-cluster.js';
import { saySandbox } from './say-sandbox.js';
import { ServerLog } from './server-log.js';
import { StopSignals } from './stop-signals.js';

/** Milliseconds after which a process whose start has failed exits, whatever is still open. */
const failedStartLimit = 500;

/** Warns the admin of a server without a token: everybody who can reach it may use it. */
function warnOfOpenness(settings: ServerSettings, isAsked: boolean, log: ServerLog): void {
  if (settings.token !== null || settings.tokensFile !== null) return;
  const why = isAsked ? '--auth off' : `no token in ${settings.tokenVariables.at(-1)}`;
  log.warn(`authentication is off (${why}): every endpoint is open to whoever reaches ${settings.host}.`);
  if (isLoopback(settings.host)) return;
  log.warn('=====================================================================');
  log.warn(`${settings.host} can be reached from other machines: anybody there can`);
  log.warn('run jobs here and read results. Set a token, or use --host 127.0.0.1.');
  log.warn('=====================================================================');
}

/** Warns the admin of GPUs that are listed and do not work. */
function warnOfFailed(gpus: GpuInventory, log: ServerLog): void {
  for (const gpu of gpus.failed) log.warn(`${failureInWords(gpu)}: it is left out, and gets no jobs.`);
}

/** Tells the admin which GPUs there are, which of them do not work, or that they are not known. */
function sayGpus(gpus: GpuInventory, log: ServerLog): void {
  gpus.on('known', () => warnOfFailed(gpus, log));
  if (gpus.current) {
    warnOfFailed(gpus, log);
    const { length } = gpus.current;
    if (length === 0) log.say(`No GPU found (${gpus.whyNone}): jobs run on the CPU.`);
    else log.say(`Found ${counted(length, 'GPU')}: ${gpus.inWords}.`);
    return;
  }
  const { firstPause, longestPause } = gpus.times;
  log.warn(`the GPUs of this machine are not known: ${gpus.problem}.`);
  log.warn('Jobs that need a GPU wait until they are; jobs on the CPU run.');
  log.warn(`nvidia-smi is asked again every ${firstPause / 1000} to ${longestPause / 1000} seconds.`);
  log.warn('If this machine has no GPU, set CUDA_VISIBLE_DEVICES= (empty) and start the server again.');
  gpus.once('known', () => {
    const ids = gpus.current?.map(({ id }) => id) ?? [];
    log.say(
      ids.length > 0
        ? `nvidia-smi answers now: GPU ${ids.join(', ')}. Jobs that waited for one go on.`
        : 'nvidia-smi answers now: this machine has no GPU. Jobs run on the CPU.',
    );
  });
}

/** Most apps that are named at the start. */
const mostNamed = 20;

/** Tells the admin which apps are served, and where their jobs are kept. */
function sayWhatIsServed({ apps, dataDirectory }: RunningServer, log: ServerLog): void {
  // A server without `--apps` can do nothing.
  if (apps.length === 0) log.say('No app is allowed: name at least one with --apps.');
  else {
    const more = apps.length > mostNamed ? ` and ${apps.length - mostNamed} more` : '';
    log.say(`Serving ${counted(apps.length, 'app')}: ${apps.slice(0, mostNamed).join(', ')}${more}.`);
  }
  log.say(`Jobs are kept in ${dataDirectory}.`);
}

/** Tells the admin that the server has started. */
function introduce(server: RunningServer, log: ServerLog): void {
  sayWhatIsServed(server, log);
  for (const problem of server.appProblems) log.warn(problem);
  if (server.gpus) sayGpus(server.gpus, log);
  if (server.cluster) sayCluster(server.cluster, log);
  if (server.sandbox) saySandbox(server.sandbox, log);
  const { ended, active } = server.recovered;
  if (ended + active > 0) log.say(`Recovered ${active} active and ${ended} finished jobs.`);
  if (server.metricsUrl) log.say(`Metrics at ${server.metricsUrl}${routes.metrics.path}`);
  const line = `Listening on ${server.url}`;
  replaceStream(process.stdout);
  if (!new DirectOutput(1).write(`${line}\n`)) log.say(`${line} (stdout could not be written to)`);
}

function describeFate(active: number, onExit: ServerSettings['onExit']): string {
  if (active === 0) return 'no job is active.';
  const jobs = counted(active, 'active job');
  return onExit === 'kill' ? `killing ${jobs}.` : `leaving ${jobs} to the next server.`;
}

/** Exits soon after a failed start, even if something that it left open would keep the process alive. */
function endSoon(): void {
  setTimeout(() => process.exit(process.exitCode ?? exitCodes.failed), failedStartLimit).unref();
}

export interface ServeOptions {
  /** Authentication was turned off by a flag. */
  readonly isOpenAsked: boolean;
  readonly logged: LogSettings;
}

/** Boots the service and resolves when SIGINT or SIGTERM has stopped it. */
export async function serveUntilStopped(
  settings: ServerSettings,
  { isOpenAsked, logged }: ServeOptions,
): Promise<void> {
  const log = new ServerLog(2, logged);
  const report = (problem: string, cause: unknown) => log.report(problem, cause);
  // Node would write warnings to stderr itself, which may block.
  process.removeAllListeners('warning').on('warning', (warning) => report('Warning', warning));
  const signals = new StopSignals((line) => log.say(line));
  warnOfOpenness(settings, isOpenAsked, log);
  const events = new ServerEvents(report);
  logEvents(events, log);
  const hurry = new AbortController();
  void signals.asked.then(() => hurry.abort());
  const say = (line: string) => log.say(line);
  const server = await serve(settings, { report, events, say, hurry: hurry.signal }).catch((cause) => {
    endSoon();
    throw cause instanceof SetupError ? new UsageError(cause.message, { cause }) : cause;
  });
  warnOfNewApps(server, events, log);
  signals.onHangUp = () => reload(server, log);
  if (!signals.isAsked) introduce(server, log);

  await signals.asked;
  log.say(`Stopping; ${describeFate(server.activeJobs(), settings.onExit)}`);
  try {
    await server.close();
  } finally {
    signals.closed();
  }
}
