import { counted, formatBytes, isLoopback, routes } from '../../contract/index.js';
import { failureInWords, type GpuInventory } from '../../server/devices/index.js';
import { isOwnProxy, type RunningServer, type SandboxReport } from '../../server/serve.js';
import type { ServerSettings } from '../../server/settings.js';
import type { Output, ServerLog } from './server-log.js';

/** Tells the admin which cluster runs the jobs, and if it currently accepts none. */
function sayCluster({ version, size, problem }: NonNullable<RunningServer['cluster']>, log: ServerLog): void {
  const found =
    size && `${counted(size.nodes, 'node')}, ${size.gpus === 0 ? 'no GPU' : counted(size.gpus, 'GPU')}`;
  log.say(`Jobs run on a Slurm cluster (${version})${found === null ? '' : `: ${found}`}.`);
  if (size?.gpus === 0) log.say('Jobs run on the CPU of its nodes.');
  if (problem === null) return;
  log.warn(`Slurm does not accept jobs at the moment: ${problem}.`);
  log.warn('New jobs wait until it does; running jobs continue.');
}

/** Tells the admin how jobs are isolated from each other, or why they are not. */
function saySandbox(found: SandboxReport, log: ServerLog): void {
  if (found.version === null) {
    log.warn(`jobs run without a sandbox: ${found.problem}.`);
    log.warn('An app can read the files of every job, and everything else this user can read.');
    if (found.limits.memory !== null) log.warn('--memory-per-job has no effect without a sandbox.');
    return;
  }
  const seen = found.binds.map(({ path, isWritable }) => `${path}${isWritable ? ' (writable)' : ''}`);
  const files = ['the system', 'their app', 'their own files', ...seen].join(', ');
  log.say(`Jobs run in sandboxes (${found.version}). They see ${files}.`);
  if (found.unfiltered !== '') {
    log.warn(
      `jobs share this user's keys in the kernel, and may use sockets of virtual machines (AF_VSOCK): ${found.unfiltered}.`,
    );
  }
  const { processes, memory } = found.limits;
  const limits = [
    ...(processes === null ? [] : [`${processes} processes and threads`]),
    ...(memory === null ? [] : [`${formatBytes(memory)} of memory`]),
  ];
  if (limits.length > 0) log.say(`A job may use ${limits.join(' and ')}; it is stopped if it uses more.`);
  for (const variable of found.blindSpots) {
    log.warn(
      `${variable}: sandboxed jobs cannot see that directory; make it visible with --bind or --bind-rw.`,
    );
  }
  for (const app of found.offline) {
    log.warn(
      `${app}: its jobs have no network to fetch what is missing of the repository; fetch it at the start with --download, or allow --network ${app}.`,
    );
  }
}

/** Warns the admin about a server without a token, which anybody who can reach it may use. */
export function warnOfOpenness(settings: ServerSettings, isAsked: boolean, log: ServerLog): void {
  if (settings.token !== null || settings.tokensFile !== null) return;
  const why = isAsked ? '--auth off' : `no token in ${settings.tokenVariables.at(-1)}`;
  log.warn(`authentication is off (${why}): every endpoint is open to whoever reaches ${settings.host}.`);
  if (isLoopback(settings.host)) return;
  log.warn('=====================================================================');
  log.warn(`${settings.host} can be reached from other machines: anybody there can`);
  log.warn('run jobs here and read results. Set a token, or use --host 127.0.0.1.');
  log.warn('=====================================================================');
}

/** Warns the admin about untrusted proxies, because any user of this machine could pose as one. */
export function warnOfLocalProxy({ trustedProxies, proxySecret }: ServerSettings, log: ServerLog): void {
  if (proxySecret !== null || !isOwnProxy(trustedProxies)) return;
  log.warn(
    `--trusted-proxy ${trustedProxies.join(', ')}: X-Forwarded-For is ignored in requests from this machine, where every user could write it; ` +
      'give the proxy a secret with --proxy-secret-file.',
  );
}

/** Warns the admin about GPUs that are listed but do not work. */
function warnOfFailed(gpus: GpuInventory, log: ServerLog): void {
  for (const gpu of gpus.failed) log.warn(`${failureInWords(gpu)}: it is left out and gets no jobs.`);
}

/** Tells the admin which GPUs exist and which do not work, or that this is unknown. */
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
  log.warn('Jobs that need a GPU wait until they are known; jobs on the CPU run.');
  log.warn(`nvidia-smi is run again every ${firstPause / 1000} to ${longestPause / 1000} seconds.`);
  log.warn('If this machine has no GPU, set CUDA_VISIBLE_DEVICES= (empty) and start the server again.');
  gpus.once('known', () => {
    const ids = gpus.current?.map(({ id }) => id) ?? [];
    log.say(
      ids.length > 0
        ? `nvidia-smi answers now: GPU ${ids.join(', ')}. Jobs that waited for a GPU start now.`
        : 'nvidia-smi answers now: this machine has no GPU. Jobs run on the CPU.',
    );
  });
}

/** Maximum number of apps named at start-up; if there are more, only their number is shown. */
const maxNamed = 20;

/** Tells the admin which apps are served, and where jobs are stored. */
function sayWhatIsServed({ apps, dataDirectory }: RunningServer, log: ServerLog): void {
  // A server without apps can do nothing.
  if (apps.length === 0) log.say('No app is allowed: give at least one with --apps.');
  else {
    const more = apps.length > maxNamed ? ` and ${apps.length - maxNamed} more` : '';
    log.say(`Serving ${counted(apps.length, 'app')}: ${apps.slice(0, maxNamed).join(', ')}${more}.`);
  }
  log.say(`Jobs are kept in ${dataDirectory}.`);
}

/** Tells the admin that the server has started. Its address goes to stdout. */
export function introduce(server: RunningServer, log: ServerLog, stdout: Output): void {
  sayWhatIsServed(server, log);
  for (const problem of server.appProblems) log.warn(problem);
  if (server.gpus) sayGpus(server.gpus, log);
  if (server.cluster) sayCluster(server.cluster, log);
  if (server.sandbox) saySandbox(server.sandbox, log);
  const { ended, active } = server.recovered;
  if (ended + active > 0) log.say(`Recovered ${active} active and ${ended} finished jobs.`);
  if (server.metricsUrl) log.say(`Metrics at ${server.metricsUrl}${routes.metrics.path}`);
  const line = `Listening on ${server.url}`;
  if (!stdout.write(`${log.format(line)}\n`)) log.say(`${line} (stdout could not be written to)`);
}
