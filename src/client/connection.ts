import type { Readable } from 'node:stream';
import { Agent } from 'undici';
import { backoff, pause } from './backoff.js';
import { ClientError, HttpError, TransportError } from './errors.js';
import { type Reply, refusal } from './reply.js';
import { readServerUrl, showServerUrl } from './server-url.js';
import { explainTransport } from './transport-error.js';

/** Where the service is and how long to wait for it. Times are in seconds. */
export interface ConnectionOptions {
  readonly server: string;
  readonly token?: string | undefined;
  readonly connectTimeout: number;
  /** Longest silence of a server that owes an answer. */
  readonly readTimeout: number;
  /** Ends every request that brings no signal of its own. */
  readonly signal?: AbortSignal | undefined;
}

export interface Call {
  readonly method?: 'GET' | 'POST' | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** With its question mark. */
  readonly query?: string | undefined;
  /** The next piece is asked for when the last is with the kernel, if it was longer than a socket's own buffer. */
  readonly body?: AsyncIterable<Buffer> | undefined;
  /** Longest wait for the head of the answer, in seconds; 0 is no limit. */
  readonly headTimeout?: number | undefined;
  /** Longest silence inside the body of the answer, in seconds. */
  readonly bodyTimeout?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** How often a question whose connection broke is asked again. */
const questionsAgain = 4;

/** The one way to the service: base address, token, timeouts, and failures as a person reads them. */
export class Connection {
  readonly #base: URL;
  readonly #agent: Agent;
  readonly #options: ConnectionOptions;

  /** @throws UsageError for an address that is none */
  constructor(options: ConnectionOptions) {
    this.#base = readServerUrl(options.server);
    this.#options = options;
    this.#agent = new Agent({
      connect: { timeout: options.connectTimeout * 1000 },
      headersTimeout: options.readTimeout * 1000,
      bodyTimeout: options.readTimeout * 1000,
    });
  }

  /** The address, without a slash at the end. */
  get server(): string {
    return showServerUrl(this.#base);
  }

  /** Seconds. */
  get readTimeout(): number {
    return this.#options.readTimeout;
  }

  get signal(): AbortSignal | undefined {
    return this.#options.signal;
  }

  /**
   * Sends one request; `path` comes from contract/routes.ts and goes behind the address's own path.
   * @throws TransportError, or the reason of the signal that ended it
   */
  async send(path: string, call: Call = {}): Promise<Reply> {
    const { token } = this.#options;
    const signal = call.signal ?? this.signal;
    signal?.throwIfAborted();
    try {
      return await this.#agent.request({
        origin: this.#base.origin,
        path: `${this.#base.pathname === '/' ? '' : this.#base.pathname}${path}${call.query ?? ''}`,
        method: call.method ?? 'GET',
        headers: { ...call.headers, ...(token ? { authorization: `Bearer ${token}` } : {}) },
        // undici takes any iterable, which its types do not know; a stream would read ahead.
        body: (call.body ?? null) as Readable | null,
        ...(call.headTimeout === undefined ? {} : { headersTimeout: call.headTimeout * 1000 }),
        ...(call.bodyTimeout === undefined ? {} : { bodyTimeout: call.bodyTimeout * 1000 }),
        ...(signal ? { signal } : {}),
      });
    } catch (error) {
      throw this.explain(error, signal);
    }
  }

  /**
   * Reads the whole body of an answer as text.
   * @throws TransportError where it breaks off
   */
  async text(reply: Reply, signal: AbortSignal | undefined = this.signal): Promise<string> {
    try {
      return await reply.body.text();
    } catch (error) {
      throw this.explain(error, signal);
    }
  }

  /**
   * Sends one request that answers with JSON.
   * @throws HttpError for every status but 2xx
   */
  async json<T>(path: string, call: Call = {}): Promise<T> {
    for (let failures = 0; ; failures += 1) {
      try {
        return await this.#jsonOnce<T>(path, call);
      } catch (error) {
        // A question may be asked again; an order may not.
        const isBroken = error instanceof TransportError && error.fault === 'broken';
        if (!isBroken || call.method === 'POST' || failures >= questionsAgain) throw error;
        await pause(backoff(failures, 200), call.signal ?? this.signal).catch((reason: unknown) => {
          // Where time is up, what broke says more; an interruption speaks for itself.
          throw reason instanceof ClientError ? reason : error;
        });
      }
    }
  }

  async #jsonOnce<T>(path: string, call: Call): Promise<T> {
    const reply = await this.send(path, call);
    const text = await this.text(reply, call.signal);
    if (reply.statusCode >= 300) throw refusal(reply, text);
    try {
      return JSON.parse(text) as T;
    } catch {
      throw new HttpError(reply.statusCode, `${this.server} answered with something other than JSON`, null);
    }
  }

  /** What a failure below HTTP means here. */
  explain(error: unknown, signal: AbortSignal | undefined = this.signal): Error {
    return explainTransport(error, this.server, signal);
  }

  /** Cuts what is still open. */
  async close(): Promise<void> {
    await this.#agent.destroy();
  }
}
