import { counted } from '../../contract/index.js';
import type { ServerEvents } from '../../server/events.js';
import type { RunningServer } from '../../server/serve.js';
import type { ServerLog } from './server-log.js';

/** Reads again what may change while the server runs. What cannot be read leaves everything as it was, and is said. */
export function reload(server: RunningServer, log: ServerLog): void {
  try {
    log.note('info', `SIGHUP: read again: ${counted(server.reload(), 'app')}. The jobs go on.`);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    log.warn(`SIGHUP: the apps stay as they were: ${why}`);
  }
}

/** Says of each app that comes while the server runs what it lacks. */
export function warnOfNewApps(server: RunningServer, events: ServerEvents, log: ServerLog): void {
  events.on('apps', ({ added }) => {
    server.problemsOf(added).then(
      (problems) => {
        for (const each of problems) log.warn(each);
      },
      (cause) => log.report('New apps could not be looked at', cause),
    );
  });
}
