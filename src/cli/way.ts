import type { ConnectionOptions } from '../client/connection/connection.js';
import { readServerUrl } from '../client/connection/server-url.js';
import type { Settings } from './settings.js';

/** Whether the environment names a proxy: only then it is looked at closer. */
const namesProxy = (): boolean => Object.keys(process.env).some((name) => /^https?_proxy$/i.test(name));

/**
 * How the server of these settings is reached: which certificates are trusted, and what lies in between. Everything is
 * imported lazily to keep start-up fast: most servers are reached directly.
 * @param timeout of a connection, in seconds
 * @throws UsageError for certificates or a proxy that cannot be used
 */
export async function wayTo(
  settings: Settings,
  timeout: number,
): Promise<Pick<ConnectionOptions, 'way' | 'trust'>> {
  const server = readServerUrl(settings.server);
  const trust = settings.ca
    ? (await import('../client/connection/certificates.js')).trustFile(settings.ca)
    : undefined;
  if (!namesProxy()) return { trust };
  const { chooseProxy } = await import('../client/connection/proxy-choice.js');
  const proxy = chooseProxy(server);
  if (!proxy) return { trust };
  const { forwardWay, TunnelWay } = await import('../client/connection/proxy-way.js');
  const way = server.protocol === 'https:' ? new TunnelWay(proxy, server, timeout, trust) : forwardWay(proxy);
  return { way, trust };
}
