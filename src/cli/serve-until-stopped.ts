import { once } from 'node:events';
import { UsageError } from '../client/errors.js';
import { serve } from '../server/serve.js';
import type { ServerSettings } from '../server/settings.js';
import { SetupError } from '../server/setup-error.js';

/** Milliseconds within which a stopping server has ended, whatever hangs. */
const lastResort = 9500;

const say = (line: string): void => {
  process.stderr.write(`${line}\n`);
};

function report(problem: string, cause: unknown): void {
  say(`${new Date().toISOString()} ${problem}: ${cause instanceof Error ? cause.stack : String(cause)}`);
}

/** The loopback range, which no other machine reaches. */
const isLoopback = (host: string): boolean => /^(127\.|::1$|localhost$)/.test(host);

/** What an admin must know of a server without a token: that anybody who reaches it may use it. */
function warnOfOpenness(settings: ServerSettings, isAsked: boolean): void {
  if (settings.token !== null) return;
  const why = isAsked ? '--auth off' : `no token in ${settings.tokenVariables.at(-1)}`;
  say(`WARNING: authentication is off (${why}): every endpoint is open to whoever reaches ${settings.host}.`);
  if (isLoopback(settings.host)) return;
  say('WARNING: =====================================================================');
  say(`WARNING: ${settings.host} can be reached from other machines: anybody there can`);
  say('WARNING: run jobs here and read results. Set a token, or use --host 127.0.0.1.');
  say('WARNING: =====================================================================');
}

/** What a server without `--apps` can do: nothing. */
function warnOfNothing(settings: ServerSettings, gpus: number): void {
  if (settings.apps.length === 0) say('No app is allowed: name at least one with --apps.');
  if (gpus === 0) say('No GPU found (nvidia-smi shows none): jobs run on the CPU.');
}

function describeFate(active: number, onExit: ServerSettings['onExit']): string {
  if (active === 0) return 'no job is active.';
  const jobs = active === 1 ? '1 active job' : `${active} active jobs`;
  return onExit === 'kill' ? `killing ${jobs}.` : `leaving ${jobs} to the next server.`;
}

/** Boots the service and resolves when SIGINT or SIGTERM has stopped it. */
export async function serveUntilStopped(settings: ServerSettings, isOpenAsked: boolean): Promise<void> {
  warnOfOpenness(settings, isOpenAsked);
  const server = await serve(settings, report).catch((cause) => {
    throw cause instanceof SetupError ? new UsageError(cause.message, { cause }) : cause;
  });
  warnOfNothing(settings, server.gpus);
  const { ended, active } = server.recovered;
  if (ended + active > 0) say(`Found again: ${active} active and ${ended} ended jobs.`);
  process.stdout.write(`Listening on ${server.url}\n`);

  await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
  say(`Stopping; ${describeFate(server.activeJobs(), settings.onExit)}`);
  // It also keeps the process: runners and their timers do not, and Node would end before the jobs have.
  const deadline = setTimeout(() => process.exit(1), lastResort);
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));
  await server.close();
  clearTimeout(deadline);
}
