/** Shared by `serve` and `check`. The server modules are imported only when a server is started or checked. */

export { type LogSettings, logLine, type ServeFlags, serveFlags } from './flags.js';
export { serverSettings } from './settings.js';
export type { AppCheck } from './show-check.js';
export { runTimeFlag } from './values.js';

type ConfigFile = typeof import('./config-file.js');
type Serving = typeof import('./serve-until-stopped.js');
type Checks = typeof import('./show-check.js');

/** Converts the flags of a configuration file to arguments, without those that were typed. */
export const configuredArguments: ConfigFile['configuredArguments'] = async (...args) =>
  (await import('./config-file.js')).configuredArguments(...args);

/** Runs the server and resolves when SIGINT or SIGTERM has stopped it. */
export const serveUntilStopped: Serving['serveUntilStopped'] = async (...args) =>
  (await import('./serve-until-stopped.js')).serveUntilStopped(...args);

/** Checks the settings, prints the findings, and sets the exit code. */
export const showCheck: Checks['showCheck'] = async (...args) =>
  (await import('./show-check.js')).showCheck(...args);

/** Checks an app directory for its author, prints the findings, and sets the exit code. */
export const showAppCheck: Checks['showAppCheck'] = async (...args) =>
  (await import('./show-check.js')).showAppCheck(...args);
