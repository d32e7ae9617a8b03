import { UsageError } from '../../client/errors.js';
import { counted, exitCodes } from '../../contract/index.js';
import { closeInherited } from '../../files/index.js';
import { runProgram } from '../../programs/index.js';
import { ServerEvents } from '../../server/events.js';
import { type RunningServer, type ServeContext, serve, surviveUncaughtErrors } from '../../server/serve.js';
import type { ServerSettings } from '../../server/settings.js';
import { SetupError } from '../../server/setup-error.js';
import { introduce, warnOfLocalProxy, warnOfOpenness } from './announcements.js';
import type { LogSettings } from './flags.js';
import { logEvents } from './log-events.js';
import { DirectOutput, leadsToJournal, replaceStream, ServerLog } from './server-log.js';

/** Reloads the settings that may change while the server runs. If that fails, logs a warning and changes nothing. */
function reload(server: RunningServer, log: ServerLog): void {
  try {
    log.note('info', `SIGHUP: reloaded: ${counted(server.reload(), 'app')}. The jobs go on.`);
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
  /** Reloads the settings that may change while the server runs. */
  reload(): void;
}

/** Starts the service, and logs its findings and events. @throws UsageError */
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

/** Milliseconds from the first signal until the process ends, even if something hangs. */
const deadline = 8000;

/** Signals that end a process by default, and that the server ignores. */
const survived = ['SIGUSR2', 'SIGXFSZ'] as const;

/**
 * Handles the signals of `serve`. The first SIGINT or SIGTERM asks the server to stop within ten seconds; the second ends it at
 * once. SIGHUP makes the server reload its apps and tokens; it is also sent when the terminal is closed.
 */
class StopSignals {
  /** Resolves with the first signal. */
  readonly asked: Promise<void>;
  /** Called at each SIGHUP. */
  onHangUp: (() => void) | null = null;
  #timer: NodeJS.Timeout | null = null;

  constructor(private readonly say: (line: string) => void) {
    const goOn = (name: NodeJS.Signals) => this.say(`${name}: the server keeps running; SIGTERM stops it.`);
    for (const name of survived) process.on(name, goOn);
    process.on('SIGHUP', () => {
      if (this.onHangUp) this.onHangUp();
      else goOn('SIGHUP');
    });
    this.asked = new Promise((resolve) => {
      const stop = () => {
        if (this.isAsked) process.exit(exitCodes.failed);
        this.#arm();
        resolve();
      };
      for (const name of ['SIGINT', 'SIGTERM']) process.on(name, stop);
    });
  }

  /** Whether a signal to stop was received. */
  get isAsked(): boolean {
    return this.#timer !== null;
  }

  /** Lets the process exit, because everything is closed. The deadline stays, in case something keeps the process alive. */
  closed(): void {
    this.#timer?.unref();
  }

  #arm(): void {
    // Not unreferenced: runners and their timers do not keep the process alive, so Node would exit before the jobs end.
    this.#timer = setTimeout(() => {
      const open = [...new Set(process.getActiveResourcesInfo())].join(', ');
      this.say(`Stopping took too long; exiting now. Still open: ${open || 'nothing'}.`);
      // Not `process.exit`, which waits for threads, and one may be blocked by a file system.
      process.kill(process.pid, 'SIGKILL');
    }, deadline);
  }
}

/** Milliseconds that `systemd-notify` may take. */
const notifyLimit = 5000;

/**
 * Tells systemd that the service is ready or stopping, if the unit has `Type=notify`. sd_notify(3) needs a Unix datagram socket,
 * which Node lacks, so this runs systemd's own program; for that, the unit needs `NotifyAccess=all`.
 * @param state an assignment of sd_notify(3)
 * @param environment of the server; without `NOTIFY_SOCKET`, nothing is done
 */
async function notifyServiceManager(
  state: 'READY=1' | 'STOPPING=1',
  environment: NodeJS.ProcessEnv,
): Promise<void> {
  const { NOTIFY_SOCKET: socket, PATH: searchPath = '' } = environment;
  if (!socket) return;
  const { exitCode, stderr } = await runProgram(['systemd-notify', state], {
    environment: { NOTIFY_SOCKET: socket, PATH: `${searchPath}:/usr/bin:/bin` },
    limit: notifyLimit,
    maxBytes: 1000,
    beyond: 'keepFirst',
  });
  if (exitCode !== 0) throw new Error(stderr.trim() || `systemd-notify ended with ${exitCode}`);
}

interface ServeOptions {
  /** Whether a flag turned authentication off. */
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
    setTimeout(() => process.exit(), failedStartLimit).unref();
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
