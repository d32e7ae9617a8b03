/** What `serve` and `check` share. The server's half of the program is imported only when it is started or checked. */

export { type LogSettings, logLine, type ServeFlags, serveFlags } from './flags.js';
export { serverSettings } from './settings.js';
export type { AppCheck } from './show-check.js';
export { runTimeFlag } from './values.js';

type ConfigFile = typeof import('./config-file.js');
type Serving = typeof import('./serve-until-stopped.js');
type Checks = typeof import('./show-check.js');

/** The flags of a configuration file as arguments, without those that were typed. */
export const configuredArguments: ConfigFile['configuredArguments'] = async (...args) =>
  (await import('./config-file.js')).configuredArguments(...args);

/** Runs the server and resolves when SIGINT or SIGTERM has stopped it. */
export const serveUntilStopped: Serving['serveUntilStopped'] = async (...args) =>
  (await import('./serve-until-stopped.js')).serveUntilStopped(...args);

/** Prints what a check of the settings finds, and sets the exit code. */
export const showCheck: Checks['showCheck'] = async (...args) =>
  (await import('./show-check.js')).showCheck(...args);

/** Checks an app directory for its author, and sets the exit code. */
export const showAppCheck: Checks['showAppCheck'] = async (...args) =>
  (await import('./show-check.js')).showAppCheck(...args);
