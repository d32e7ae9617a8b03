import { lookup } from 'node:dns';
import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SetupError } from '../setup-error.js';

/**
 * Makes a server listen.
 * @returns its address, `http://host:port`
 * @throws SetupError
 */
export async function listen(server: Server, host: string, port: number): Promise<string> {
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new SetupError(`Cannot listen on ${host}, port ${port}: ${reason}`, { cause });
  }
  const { address, port: taken, family } = server.address() as AddressInfo;
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${taken}`;
}

/** Where a server listens. */
export interface Address {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
}

/** The address of a host as the system has it; the host itself if it has none. */
const addressOf = (host: string): Promise<string> =>
  new Promise((resolve) => {
    lookup(host, (cause, address) => resolve(cause ? host : address));
  });

/**
 * Checks that the metrics have a port of their own.
 * @param metrics null where they have no server
 * @throws SetupError where both servers could not listen at once
 */
export async function checkPorts(server: Address, metrics: Address | null): Promise<void> {
  if (metrics === null || metrics.port === 0 || metrics.port !== server.port) return;
  const [address, ofMetrics] = await Promise.all([addressOf(server.host), addressOf(metrics.host)]);
  const isEvery = [address, ofMetrics].some((each) => each === '0.0.0.0' || each === '::');
  if (address !== ofMetrics && !isEvery) return;
  throw new SetupError(
    `--metrics-port ${metrics.port} is the port of the server itself; give the metrics another one, or leave it out: ` +
      'GET /metrics is also there, with a token of the role admin',
  );
}
