import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { errorCode } from '../../files/index.js';
import type { Connection } from '../connection/index.js';
import { UsageError } from '../errors.js';
import { Admission } from './admission.js';
import { forward, refuse } from './forward.js';

/** An open gateway. */
export interface Gateway {
  readonly host: string;
  readonly port: number;
  /** The bearer token that its clients send. */
  readonly secret: string;
  /** Ends all requests at once. The connection to the server stays open. */
  close(): Promise<void>;
}

const [ipv4, ipv6] = ['127.0.0.1', '::1'] as const;

/** System errors of a machine without IPv6. */
const noIpv6 = ['EADDRNOTAVAIL', 'EAFNOSUPPORT'];

/** How many free ports of one loopback address are tried until one is free on the other as well. */
const attempts = 10;

/** @throws the system's error */
async function listen(server: Server, host: string, port: number): Promise<number> {
  server.listen(port, host);
  // Rejects with an error of the server.
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

const close = (servers: readonly Server[]): Promise<unknown> =>
  Promise.all(
    servers.map((server) => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    }),
  );

/** An HTTP server without time limits on requests, as in the service. */
function httpServer(handler: RequestListener): Server {
  const server = createServer({ requestTimeout: 0, keepAliveTimeout: 75_000 }, handler);
  // Without this listener Node would ask for the body before anything is checked.
  return server.on('checkContinue', handler);
}

/**
 * Listens on both loopback addresses, because `localhost` may be either: another user's program that listens on the other address
 * would receive the secret.
 * @throws the system's error
 */
async function listenOnLoopback(
  wanted: number,
  handler: RequestListener,
): Promise<{ port: number; servers: readonly Server[] }> {
  for (let attempt = 1; ; attempt += 1) {
    const servers = [httpServer(handler), httpServer(handler)] as const;
    const port = await listen(servers[0], ipv4, wanted);
    try {
      await listen(servers[1], ipv6, port);
    } catch (error) {
      if (!noIpv6.includes(errorCode(error))) {
        await close(servers);
        if (wanted === 0 && attempt < attempts) continue;
        throw error;
      }
    }
    return { port, servers };
  }
}

const reasons: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another program listens there; give another port with --port, or --port 0 for any free one',
  EACCES: 'only root may use it; give a port above 1023 with --port',
};

/**
 * Opens a gateway: an HTTP server that only this machine can reach. It forwards every request to the server of a connection, with
 * the connection's token in place of the gateway's own secret.
 * @param wanted the port; 0 for any free one
 * @param onAnswer gets the error if the server gave no answer, otherwise null
 * @param passesFiles false to refuse every request that may carry a file
 * @throws UsageError for a port that cannot be used
 */
export async function openGateway(
  connection: Connection,
  wanted: number,
  onAnswer: (problem: Error | null) => void,
  passesFiles = true,
): Promise<Gateway> {
  const secret = randomBytes(32).toString('base64url');
  const admission = new Admission(secret, passesFiles);
  const handler: RequestListener = (request, response) => {
    try {
      admission.check(request);
    } catch (error) {
      refuse(response, error);
      return;
    }
    void forward(connection, request, response, onAnswer);
  };
  const opened = await listenOnLoopback(wanted, handler).catch((cause: unknown) => {
    const why = reasons[errorCode(cause)] ?? (cause instanceof Error ? cause.message : String(cause));
    throw new UsageError(`Port ${wanted} of this machine cannot be used: ${why}`, { cause });
  });
  return {
    host: ipv4,
    port: opened.port,
    secret,
    close: async () => void (await close(opened.servers)),
  };
}
