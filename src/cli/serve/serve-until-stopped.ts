import { UsageError } from '../../client/errors.js';
import { counted } from '../../contract/index.js';
import { closeInherited } from '../../files/index.js';
import { ServerEvents } from '../../server/events.js';
import { type RunningServer, type ServeContext, serve, surviveUncaughtErrors } from '../../server/serve.js';
import type { ServerSettings } from '../../server/settings.js';
import { SetupError } from '../../server/setup-error.js';
import { introduce, warnOfLocalProxy, warnOfOpenness } from './announcements.js';
import type { LogSettings } from './flags.js';
import { logEvents } from './log-events.js';
import { DirectOutput, leadsToJournal, replaceStream, ServerLog } from './server-log.js';
import { notifyServiceManager } from './service-manager.js';
import { StopSignals } from './stop-signals.js';

/** Reloads what may change while the server runs. If that fails, a warning says so and nothing changes. */
function reload(server: RunningServer, log: ServerLog): void {
  try {
    log.note('info', `SIGHUP: read again: ${counted(server.reload(), 'app')}. The jobs go on.`);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    log.warn(`SIGHUP: the apps stay as they were: ${why}`);
  }
}

/** Warns of problems with apps that are added while the server runs. */
function warnOfNewApps(server: RunningServer, events: ServerEvents, log: ServerLog): void {
  events.on('apps', ({ added }) => {
    server.problemsOf(added).then(
      (problems) => {
        for (const each of problems) log.warn(each);
      },
      (cause) => log.report('New apps could not be checked', cause),
    );
  });
}

/** A running server that writes its log. */
export interface LoggedServer {
  readonly server: RunningServer;
  /** Reads again what may change while the server runs. */
  reload(): void;
}

/**
 * Starts the service and logs what it finds and what happens.
 * @throws UsageError
 */
export async function startLogged(
  settings: ServerSettings,
  log: ServerLog,
  context: Pick<ServeContext, 'hurry' | 'openExecutor' | 'clock'> & { readonly isOpenAsked: boolean },
): Promise<LoggedServer> {
  const report = (problem: string, cause: unknown) => log.report(problem, cause);
  const say = (line: string) => log.say(line);
  warnOfOpenness(settings, context.isOpenAsked, log);
  const events = new ServerEvents(report);
  logEvents(events, log);
  const server = await serve(settings, { ...context, report, events, say }).catch((cause) => {
    throw cause instanceof SetupError ? new UsageError(cause.message, { cause }) : cause;
  });
  warnOfLocalProxy(settings, log);
  warnOfNewApps(server, events, log);
  return { server, reload: () => reload(server, log) };
}

/** Milliseconds until the process exits after a failed start, whatever is still open. */
const failedStartLimit = 500;

function describeFate(active: number, onExit: ServerSettings['onExit']): string {
  if (active === 0) return 'no job is active.';
  const jobs = counted(active, 'active job');
  return onExit === 'kill' ? `killing ${jobs}.` : `leaving ${jobs} to the next server.`;
}

/** Exits soon after a failed start, even if something that it left open would keep the process alive. */
function endSoon(): void {
  setTimeout(() => process.exit(), failedStartLimit).unref();
}

interface ServeOptions {
  /** Authentication was turned off by a flag. */
  readonly isOpenAsked: boolean;
  readonly logged: LogSettings;
}

/** Runs the service until SIGINT or SIGTERM stops it. */
export async function serveUntilStopped(
  settings: ServerSettings,
  { isOpenAsked, logged }: ServeOptions,
): Promise<void> {
  replaceStream(process.stderr);
  const isJournal = leadsToJournal(2, settings.environment.JOURNAL_STREAM);
  const log = new ServerLog(new DirectOutput(2), logged, isJournal);
  const report = (problem: string, cause: unknown) => log.report(problem, cause);
  // Node would write warnings to stderr itself, which may block.
  process.removeAllListeners('warning').on('warning', (warning) => report('Warning', warning));
  surviveUncaughtErrors(report);
  closeInherited();
  // The owner keeps all permissions; the umask of the admin decides about those of others.
  process.umask(process.umask() & 0o077);
  const signals = new StopSignals((line) => log.say(line));
  const hurry = new AbortController();
  void signals.asked.then(() => hurry.abort());
  const told = startLogged(settings, log, { isOpenAsked, hurry: hurry.signal });
  const { server, reload: onHangUp } = await told.catch((cause) => {
    endSoon();
    throw cause;
  });
  signals.onHangUp = onHangUp;
  replaceStream(process.stdout);
  const notify = (state: 'READY=1' | 'STOPPING=1') =>
    notifyServiceManager(state, settings.environment).catch((cause) =>
      report('systemd could not be notified', cause),
    );
  if (!signals.isAsked) {
    introduce(server, log, new DirectOutput(1));
    void notify('READY=1');
  }

  await signals.asked;
  void notify('STOPPING=1');
  log.say(`Stopping; ${describeFate(server.activeJobs(), settings.onExit)}`);
  try {
    await server.close();
  } finally {
    signals.closed();
  }
}
