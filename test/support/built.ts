import type * as announcementsModule from '../../src/cli/serve/announcements.js';
import type * as serveModule from '../../src/cli/serve/index.js';
import type * as servingModule from '../../src/cli/serve/serve-until-stopped.js';
import type * as logModule from '../../src/cli/serve/server-log.js';
import type * as terminalModule from '../../src/cli/terminal/index.js';
import type * as mainModule from '../../src/start/main.js';

/** A directory of the built program. */
export const built = (name: string): string => new URL(`../../dist/${name}`, import.meta.url).href;

export const load = <T>(name: string): Promise<T> => import(/* @vite-ignore */ built(name));

/**
 * Servers and commands in the test's own process are those of the build, loaded once: the programs that they start, such as
 * the runner, stand beside them.
 */
export const builtServer = async () => ({
  ...(await load<typeof serveModule>('cli/serve/index.js')),
  ...(await load<typeof announcementsModule>('cli/serve/announcements.js')),
  ...(await load<typeof servingModule>('cli/serve/serve-until-stopped.js')),
  ...(await load<typeof logModule>('cli/serve/server-log.js')),
});

/** See `builtServer`. */
export const builtCommands = async () => ({
  ...(await load<typeof mainModule>('start/main.js')),
  ...(await load<typeof terminalModule>('cli/terminal/index.js')),
});
