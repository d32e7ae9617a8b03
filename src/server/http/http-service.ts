import { once } from 'node:events';
import type { RequestListener, Server } from 'node:http';
import type { Report } from '../report.js';
import { httpServer } from './http-server.js';
import { type Address, listen } from './listen.js';
import { metricsServer } from './metrics-server.js';
import type { Traffic } from './traffic.js';

/** Milliseconds that answers under way may take when the server stops. */
const lastAnswers = 1000;

export interface HttpServiceDeps {
  readonly handler: RequestListener;
  readonly address: Address;
  /** Where the metrics have a server of their own; null where they have none. */
  readonly metricsAt: Address | null;
  readonly readMetrics: () => Promise<string>;
  readonly traffic: Traffic;
  readonly report: Report;
}

/** The HTTP server of the service, and the one for metrics. */
export class HttpService {
  readonly #server: Server;
  readonly #metrics: Server | null;
  #closed: Promise<unknown> = Promise.resolve();

  constructor(private readonly deps: HttpServiceDeps) {
    const { handler, metricsAt, readMetrics, traffic, report } = deps;
    this.#server = httpServer(handler);
    traffic.count(this.#server);
    this.#metrics = metricsAt && metricsServer(metricsAt.host, readMetrics, report).unref();
  }

  /** @returns `http://host:port`; null where there is no such server @throws SetupError */
  async listenForMetrics(): Promise<string | null> {
    const { metricsAt } = this.deps;
    return metricsAt && this.#metrics && listen(this.#metrics, metricsAt.host, metricsAt.port);
  }

  /** @returns `http://host:port` @throws SetupError */
  listen(): Promise<string> {
    return listen(this.#server, this.deps.address.host, this.deps.address.port);
  }

  /** Refuses new connections. Those that are open go on. */
  stopListening(): void {
    // The connections may be closed before the last job has ended.
    this.#closed = once(this.#server, 'close');
    this.#server.close();
    this.#metrics?.close();
    this.#metrics?.closeAllConnections();
  }

  /** Resolves when all connections are closed, after the last answers or a moment. */
  async close(): Promise<void> {
    this.#server.closeIdleConnections();
    const timer = setTimeout(() => this.#server.closeAllConnections(), lastAnswers);
    await this.#closed;
    clearTimeout(timer);
  }
}
