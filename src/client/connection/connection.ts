import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { Agent, buildConnector } from 'undici';
import { authScheme } from '../../contract/http.js';
import type { Route } from '../../contract/routes.js';
import { ClientError, type HttpError, isGatewayError, TransportError } from '../errors.js';
import { backoff, pause } from './backoff.js';
import { type Answer, readAnswer, tooLong } from './check-answer.js';
import { Patience, type Watcher } from './patience.js';
import { readBody } from './read-body.js';
import { type Reply, refusal } from './reply.js';
import { readServerUrl, showServerUrl } from './server-url.js';
import { TimeLimit } from './time-limit.js';
import { explainTransport } from './transport-error.js';

/** Where the service is and how long to wait for it. Times are in seconds. */
export interface ConnectionOptions {
  readonly server: string;
  readonly token?: string | undefined;
  readonly connectTimeout: number;
  /** Longest wait for an answer while no byte comes. */
  readonly readTimeout: number;
  /** How long a server that has answered before, and cannot be reached now, is tried again. */
  readonly patience: number;
  /** Ends every request that brings no signal of its own. */
  readonly signal?: AbortSignal | undefined;
}

export interface Call {
  readonly method?: Route['method'] | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** With its question mark. */
  readonly query?: string | undefined;
  /** The next piece is requested when the kernel has taken the last one. */
  readonly body?: AsyncIterable<Buffer> | undefined;
  /** Longest wait for the head of the answer, in seconds; 0 is no limit. */
  readonly headTimeout?: number | undefined;
  /** Longest silence inside the body of the answer, in seconds. */
  readonly bodyTimeout?: number | undefined;
  /** Longest time for a whole call that answers with JSON, in seconds; by default the longest silence. */
  readonly limit?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Most bytes of a refusal, or of an answer that says 'not yet'. */
const longestWords = 64 * 1024;

/** How often a GET whose connection broke is sent again. */
const questionsAgain = 4;

/** Ends a wait when the signal is aborted. Needed because undici checks a request's signal only once it is connected. */
function orAborted<T>(wait: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return wait;
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort);
    wait.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/** The only way to the service: base address, token, timeouts, and errors in words. */
export class Connection {
  readonly #base: URL;
  readonly #agent: Agent;
  readonly #options: ConnectionOptions;
  /** Sockets on which no request can be sent yet. */
  readonly #connecting = new Set<Socket>();
  #isMet = false;

  /** @throws UsageError for an invalid address */
  constructor(options: ConnectionOptions) {
    this.#base = readServerUrl(options.server);
    this.#options = options;
    this.#agent = new Agent({
      connect: this.#connector(options.connectTimeout),
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

  /** Whether the server has answered. A proxy's answer that there is no server behind it does not count. */
  get isMet(): boolean {
    return this.#isMet;
  }

  /** A new patience with this server: it lasts for one task, such as one upload. */
  patience(watcher?: Watcher): Patience {
    return new Patience(this.#options.patience, this.signal, watcher);
  }

  /**
   * Sends one request. `path` comes from contract/paths.ts or contract/routes.ts and is appended to the path of the address.
   * @throws TransportError, or the reason of the signal that ended it
   */
  async send(path: string, call: Call = {}): Promise<Reply> {
    const { token } = this.#options;
    const signal = call.signal ?? this.signal;
    signal?.throwIfAborted();
    try {
      const answered = this.#agent.request({
        origin: this.#base.origin,
        path: `${this.#base.pathname === '/' ? '' : this.#base.pathname}${path}${call.query ?? ''}`,
        method: call.method ?? 'GET',
        headers: { ...call.headers, ...(token ? { authorization: `${authScheme} ${token}` } : {}) },
        // undici accepts any iterable, although its types do not say so; a stream would read ahead.
        body: (call.body ?? null) as Readable | null,
        ...(call.headTimeout === undefined ? {} : { headersTimeout: call.headTimeout * 1000 }),
        ...(call.bodyTimeout === undefined ? {} : { bodyTimeout: call.bodyTimeout * 1000 }),
        ...(signal ? { signal } : {}),
      });
      const reply = await orAborted(answered, signal);
      if (!isGatewayError(reply.statusCode)) this.#isMet = true;
      return reply;
    } catch (error) {
      throw this.explain(error, signal);
    }
  }

  /**
   * Reads the body of an error answer, which holds a sentence. A body that is too long for that is cut off and read as
   * empty.
   * @throws TransportError if the connection breaks
   */
  async words(reply: Reply, signal: AbortSignal | undefined = this.signal): Promise<string> {
    return (await this.#body(reply, longestWords, signal)) ?? '';
  }

  /**
   * The error for a request that got this answer.
   * @param path that was asked for
   */
  async refused(
    reply: Reply,
    path: string,
    signal: AbortSignal | undefined = this.signal,
  ): Promise<HttpError> {
    return refusal(reply, await this.words(reply, signal), { server: this.server, path });
  }

  /**
   * Parses and checks the body of an answer.
   * @param path that was asked for
   * @throws HttpError for every status but 2xx; AnswerError for a body that is something else
   */
  async read<T>(
    reply: Reply,
    path: string,
    answer: Answer<T>,
    signal: AbortSignal | undefined = this.signal,
  ): Promise<T> {
    if (reply.statusCode >= 300) throw await this.refused(reply, path, signal);
    const text = await this.#body(reply, answer.longest, signal);
    if (text === null) throw tooLong(this.server, path, answer.longest);
    return readAnswer(this.server, path, text, answer);
  }

  /**
   * Sends one request that answers with JSON. Without a signal of its own the whole call is limited in time.
   * @throws HttpError for every status but 2xx; AnswerError for a body that is something else
   */
  async json<T>(path: string, answer: Answer<T>, call: Call = {}): Promise<T> {
    using limit = new TimeLimit(call.limit ?? this.readTimeout, this.signal);
    const signal = call.signal ?? limit.signal;
    for (let failures = 0; ; failures += 1) {
      try {
        return await this.read(await this.send(path, { ...call, signal }), path, answer, signal);
      } catch (error) {
        // A GET may be repeated; what changes something may not.
        const isBroken = error instanceof TransportError && error.fault === 'broken';
        if (!isBroken || (call.method ?? 'GET') !== 'GET' || failures >= questionsAgain) throw error;
        await pause(backoff(failures, 200), signal).catch((reason: unknown) => {
          // After the time limit the last connection error says more; an interruption is thrown as it is.
          throw reason instanceof ClientError ? reason : error;
        });
      }
    }
  }

  /** undici's connector, which also keeps track of the sockets that are not connected yet. */
  #connector(timeout: number): buildConnector.connector {
    const connect = buildConnector({ timeout: timeout * 1000 });
    return (options, callback) => {
      // It returns the socket, although its types do not say so.
      const socket = connect(options, (...result) => {
        this.#connecting.delete(socket);
        callback(...result);
      }) as unknown as Socket;
      this.#connecting.add(socket);
    };
  }

  async #body(reply: Reply, longest: number, signal: AbortSignal | undefined): Promise<string | null> {
    try {
      return await readBody(reply, longest);
    } catch (error) {
      throw this.explain(error, signal);
    }
  }

  /** Explains a failure below HTTP. */
  explain(error: unknown, signal: AbortSignal | undefined = this.signal): Error {
    return explainTransport(error, this.server, signal);
  }

  /** Closes all sockets at once. */
  async close(): Promise<void> {
    // undici does not close these, and they would keep the process alive until their timeout.
    for (const socket of this.#connecting) socket.destroy(new Error('no longer wanted'));
    await this.#agent.destroy();
  }
}
