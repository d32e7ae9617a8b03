import {
  type ConnectionOptions,
  proxyTo,
  readServerUrl,
  readSshAddress,
  type Transport,
  trustFile,
} from '../client/connection/index.js';
import { oneLine } from '../contract/index.js';
import type { Settings } from './settings.js';
import { writeErr } from './terminal/standard-streams.js';

/** Whether the environment names a proxy: only then it is looked at closer. */
const namesProxy = (): boolean => Object.keys(process.env).some((name) => /^https?_proxy$/i.test(name));

/** Opens a tunnel by ssh before the first request, whose time begins when a person has typed a password. */
async function openTunnel(server: URL, timeout: number, signal: AbortSignal): Promise<Transport> {
  const { SshTunnel } = await import('../client/ssh/index.js');
  const tunnel = new SshTunnel(readSshAddress(server), timeout, (line) => writeErr(`${oneLine(line)}\n`));
  try {
    await tunnel.start(signal);
  } catch (error) {
    await tunnel.close();
    throw error;
  }
  return tunnel;
}

/**
 * How the server of these settings is reached: which certificates are trusted, and what lies in between. Everything is
 * imported lazily to keep start-up fast: most servers are reached directly.
 * @param timeout of a connection, in seconds
 * @throws UsageError for certificates or a proxy that cannot be used; ClientError if ssh fails
 */
export async function transportTo(
  settings: Settings,
  { timeout, signal }: { timeout: number; signal: AbortSignal },
): Promise<Pick<ConnectionOptions, 'transport' | 'trust'>> {
  const server = readServerUrl(settings.server);
  if (server.protocol === 'ssh:') return { transport: await openTunnel(server, timeout, signal) };
  const trust = settings.ca ? await trustFile(settings.ca) : undefined;
  return { transport: namesProxy() ? await proxyTo(server, timeout, trust) : undefined, trust };
}
