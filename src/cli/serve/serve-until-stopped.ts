import { UsageError } from '../../client/errors.js';
import { exitCodes } from '../../contract/errors.js';
import type { GpuInventory } from '../../server/devices/gpu-inventory.js';
import { type RunningServer, serve } from '../../server/serve.js';
import type { ServerSettings } from '../../server/settings.js';
import { SetupError } from '../../server/setup-error.js';
import { DirectOutput, replaceStream } from './direct-output.js';
import { ServerLog } from './server-log.js';
import { StopSignals } from './stop-signals.js';

/** Milliseconds after which a process whose start has failed exits, whatever is still open. */
const failedStartLimit = 500;

type Say = (line: string) => void;

/** The loopback range, which no other machine reaches. */
const isLoopback = (host: string): boolean => /^(127\.|::1$|localhost$)/.test(host);

/** Warns the admin of a server without a token: everybody who can reach it may use it. */
function warnOfOpenness(settings: ServerSettings, isAsked: boolean, say: Say): void {
  if (settings.token !== null) return;
  const why = isAsked ? '--auth off' : `no token in ${settings.tokenVariables.at(-1)}`;
  say(`WARNING: authentication is off (${why}): every endpoint is open to whoever reaches ${settings.host}.`);
  if (isLoopback(settings.host)) return;
  say('WARNING: =====================================================================');
  say(`WARNING: ${settings.host} can be reached from other machines: anybody there can`);
  say('WARNING: run jobs here and read results. Set a token, or use --host 127.0.0.1.');
  say('WARNING: =====================================================================');
}

/** Tells the admin if there is no GPU, or if the GPUs are not known. */
function sayGpus(gpus: GpuInventory, say: Say): void {
  if (gpus.current) {
    if (gpus.current.length === 0) say('No GPU found (nvidia-smi shows none): jobs run on the CPU.');
    return;
  }
  const { firstPause, longestPause } = gpus.times;
  say(`WARNING: the GPUs of this machine are not known: ${gpus.problem}.`);
  say('WARNING: Jobs that need a GPU wait until they are; jobs on the CPU run.');
  say(`WARNING: nvidia-smi is asked again every ${firstPause / 1000} to ${longestPause / 1000} seconds.`);
  say('WARNING: If this machine has no GPU, set CUDA_VISIBLE_DEVICES= (empty) and start the server again.');
  gpus.once('known', () => {
    const ids = gpus.current?.map(({ id }) => id) ?? [];
    say(
      ids.length > 0
        ? `nvidia-smi answers now: GPU ${ids.join(', ')}. Jobs that waited for one go on.`
        : 'nvidia-smi answers now: this machine has no GPU. Jobs run on the CPU.',
    );
  });
}

/** Tells the admin that the server has started. */
function introduce(server: RunningServer, settings: ServerSettings, say: Say): void {
  // A server without `--apps` can do nothing.
  if (settings.apps.length === 0) say('No app is allowed: name at least one with --apps.');
  sayGpus(server.gpus, say);
  const { ended, active } = server.recovered;
  if (ended + active > 0) say(`Recovered ${active} active and ${ended} finished jobs.`);
  const line = `Listening on ${server.url}`;
  replaceStream(process.stdout);
  if (!new DirectOutput(1).write(`${line}\n`)) say(`${line} (stdout could not be written to)`);
}

function describeFate(active: number, onExit: ServerSettings['onExit']): string {
  if (active === 0) return 'no job is active.';
  const jobs = active === 1 ? '1 active job' : `${active} active jobs`;
  return onExit === 'kill' ? `killing ${jobs}.` : `leaving ${jobs} to the next server.`;
}

/** Exits soon after a failed start, even if something that it left open would keep the process alive. */
function endSoon(): void {
  setTimeout(() => process.exit(process.exitCode ?? exitCodes.failed), failedStartLimit).unref();
}

/** Boots the service and resolves when SIGINT or SIGTERM has stopped it. */
export async function serveUntilStopped(settings: ServerSettings, isOpenAsked: boolean): Promise<void> {
  const log = new ServerLog();
  const say = (line: string) => log.say(line);
  const report = (problem: string, cause: unknown) => log.report(problem, cause);
  // Node would write warnings to stderr itself, which may block.
  process.removeAllListeners('warning').on('warning', (warning) => report('Warning', warning));
  const signals = new StopSignals(say);
  warnOfOpenness(settings, isOpenAsked, say);
  const server = await serve(settings, report).catch((cause) => {
    endSoon();
    throw cause instanceof SetupError ? new UsageError(cause.message, { cause }) : cause;
  });
  if (!signals.isAsked) introduce(server, settings, say);

  await signals.asked;
  say(`Stopping; ${describeFate(server.activeJobs(), settings.onExit)}`);
  try {
    await server.close();
  } finally {
    signals.closed();
  }
}
