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
