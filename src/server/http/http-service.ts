import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { internalError, metricsType, routes, ServiceError } from '../../contract/index.js';
import { messageOf } from '../../files/index.js';
import type { Report } from '../report.js';
import { SetupError } from '../setup-error.js';
import { sendError } from './errors.js';
import { httpServer } from './http-server.js';
import { siteCheck } from './same-origin.js';

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
    throw new SetupError(`Cannot listen on ${host}, port ${port}: ${messageOf(cause)}`, { cause });
  }
  const { address, port: taken, family } = server.address() as AddressInfo;
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${taken}`;
}

/** Where a server listens. */
export interface Address {
  readonly host: string;
  /** The port; 0 for any free one. */
  readonly port: number;
}

/**
 * Checks that the metrics server has its own port.
 * @param metrics null if there is no metrics server
 * @throws SetupError if the two servers could not listen at the same time
 */
export function checkPorts(server: Address, metrics: Address | null): void {
  if (metrics === null || metrics.port === 0 || metrics.port !== server.port) return;
  const hosts = [server.host, metrics.host];
  if (server.host !== metrics.host && !hosts.some((each) => each === '0.0.0.0' || each === '::')) return;
  throw new SetupError(
    `--metrics-port ${metrics.port} is the port of the server itself; give the metrics another one, or use --metrics in its place: ` +
      'GET /metrics is then there with a token of the role admin',
  );
}

/** Counts the bytes of all connections, both open and closed. */
export class Traffic {
  readonly #open = new Set<Socket>();
  #received = 0;
  #sent = 0;

  /** Counts the connections of a server from now on. */
  count(server: Server): void {
    server.prependListener('connection', (socket: Socket) => {
      this.#open.add(socket);
      socket.once('close', () => {
        this.#open.delete(socket);
        this.#received += socket.bytesRead;
        this.#sent += socket.bytesWritten;
      });
    });
  }

  /** Number of bytes since counting began. */
  get transferred(): { readonly received: number; readonly sent: number } {
    const open = [...this.#open];
    return {
      received: open.reduce((sum, { bytesRead }) => sum + bytesRead, this.#received),
      sent: open.reduce((sum, { bytesWritten }) => sum + bytesWritten, this.#sent),
    };
  }
}

/**
 * A separate server for only the metrics, without a token. Does not listen yet.
 * @param host the address that it will listen on
 */
function metricsServer(host: string, read: () => Promise<string>, report: Report): Server {
  const check = siteCheck({
    host,
    name: 'The port of the metrics',
    remedy: `ask for ${routes.metrics.path} at the port of the server, with a token of the role admin`,
  });
  return createServer(async (request, response) => {
    try {
      check(request);
    } catch (cause) {
      sendError(response, cause instanceof ServiceError ? cause : internalError());
      return;
    }
    const { method, url } = request;
    const isAsked = url?.split('?', 1)[0] === routes.metrics.path;
    if (!isAsked || (method !== 'GET' && method !== 'HEAD')) {
      sendError(
        response,
        new ServiceError('notFound', `There is nothing here but GET ${routes.metrics.path}`),
      );
      return;
    }
    try {
      const text = await read();
      response.writeHead(200, { 'Content-Type': metricsType }).end(text);
    } catch (cause) {
      report('The metrics could not be read', cause);
      sendError(response, internalError());
    }
  });
}

/** Milliseconds that answers in progress are given when the server stops. */
const lastAnswers = 1000;

interface HttpServiceDeps {
  readonly handler: RequestListener;
  readonly address: Address;
  /** Where the separate metrics server listens, and what it answers with; null if there is none. */
  readonly metrics: (Address & { readonly read: () => Promise<string> }) | null;
  readonly traffic: Traffic;
  readonly report: Report;
}

/** The HTTP server of the service, and the one for metrics. */
export class HttpService {
  readonly #server: Server;
  readonly #metrics: Server | null;
  #closed: Promise<unknown> = Promise.resolve();

  constructor(private readonly deps: HttpServiceDeps) {
    const { handler, metrics, traffic, report } = deps;
    this.#server = httpServer(handler);
    traffic.count(this.#server);
    this.#metrics = metrics && metricsServer(metrics.host, metrics.read, report).unref();
  }

  /** Makes the metrics server listen. @returns `http://host:port`; null if there is no such server @throws SetupError */
  async listenForMetrics(): Promise<string | null> {
    const { metrics } = this.deps;
    return metrics && this.#metrics && listen(this.#metrics, metrics.host, metrics.port);
  }

  /** Makes the server listen. @returns `http://host:port` @throws SetupError */
  listen(): Promise<string> {
    return listen(this.#server, this.deps.address.host, this.deps.address.port);
  }

  /** Refuses new connections. Open connections continue. */
  stopListening(): void {
    // Listens for `close` now, because the connections may be closed before the last job has ended.
    this.#closed = once(this.#server, 'close');
    this.#server.close();
    this.#metrics?.close();
    this.#metrics?.closeAllConnections();
  }

  /** Resolves when all connections are closed: after the last answers, but at the latest after `lastAnswers` milliseconds. */
  async close(): Promise<void> {
    this.#server.closeIdleConnections();
    const timer = setTimeout(() => this.#server.closeAllConnections(), lastAnswers);
    await this.#closed;
    clearTimeout(timer);
  }
}
