import type { Readable } from 'node:stream';
import { Agent, type Dispatcher } from 'undici';
import { authScheme } from '../../contract/index.js';
import { monotonicTime } from '../../files/index.js';
import { ClientError, type HttpError, isGatewayError, TransportError } from '../errors.js';
import { type NextCommands, nextCommand } from '../next-command.js';
import { readServerUrl, showServerUrl } from './address.js';
import { type Answer, readAnswer, tooLong } from './answers.js';
import { Connector, readToTheEnd } from './connector.js';
import { backoff, Patience, pause, questionsAgain, type Watcher } from './patience.js';
import { discard, header, type Reply, refusal } from './reply.js';
import { codeOf, explainTransport, notInTime, type Transport, type Trust } from './transport.js';

/**
 * A signal that aborts after some seconds, or when another signal does. Used instead of `AbortSignal.any`, whose time limit
 * can be garbage-collected while a server floods the client with data.
 */
class TimeLimit implements Disposable {
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;

  constructor(
    seconds: number,
    private readonly other: AbortSignal | undefined,
  ) {
    this.#timer = setTimeout(() => {
      this.#controller.abort(new DOMException('Out of time', 'TimeoutError'));
    }, seconds * 1000).unref();
    other?.addEventListener('abort', this.#onOther);
    if (other?.aborted) this.#onOther();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  readonly #onOther = (): void => this.#controller.abort(this.other?.reason);

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.other?.removeEventListener('abort', this.#onOther);
  }
}

/**
 * Reads a body as text, up to `maxBytes` bytes. If it is longer, the connection is closed immediately.
 * @param onChunk called for each piece; may throw
 * @returns null for a longer body
 */
async function readBody(reply: Reply, maxBytes: number, onChunk: () => void): Promise<string | null> {
  const chunks: Buffer[] = [];
  let length = 0;
  // Leaving the loop destroys the body, and the connection with it.
  for await (const chunk of reply.body as AsyncIterable<Buffer>) {
    onChunk();
    length += chunk.length;
    if (length > maxBytes) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, length).toString();
}

/** The address of the service, and time limits, in seconds. */
export interface ConnectionOptions {
  readonly server: string;
  readonly token?: string | undefined;
  readonly connectTimeout: number;
  /** Maximum wait for an answer while no byte arrives. */
  readonly readTimeout: number;
  /** How long requests to a server that has answered before are retried while it is unreachable. */
  readonly patience: number;
  /**
   * Waiting for a server that has not answered yet and may be starting: nothing listens at its address, or a proxy cannot reach
   * it. Absent for commands that only make a query. `tell` reports the wait.
   */
  readonly start?: { readonly seconds: number; readonly tell: (sentence: string) => void } | undefined;
  /** How the server is reached, if not directly. */
  readonly transport?: Transport | undefined;
  readonly trust?: Trust | undefined;
  /** Name and value of the flags that selected the server; suggested commands repeat them. */
  readonly serverFlags?: readonly (readonly [string, string])[] | undefined;
  /** Ends every request that has no signal of its own. */
  readonly signal?: AbortSignal | undefined;
}

export interface Call {
  readonly method?: string | undefined;
  readonly headers?: Readonly<Record<string, string | string[]>> | undefined;
  /** Including the question mark. */
  readonly query?: string | undefined;
  /** The next piece is requested once the kernel has accepted the last one. */
  readonly body?: AsyncIterable<Buffer> | undefined;
  /** Maximum wait for the head of the answer, in seconds; 0 means no limit. */
  readonly headTimeout?: number | undefined;
  /** Maximum silence inside the body of the answer, in seconds. */
  readonly bodyTimeout?: number | undefined;
  /** Time limit for a whole call with a JSON answer, in seconds; defaults to the maximum silence. */
  readonly limit?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Maximum size of the body of a refusal or a "not yet" answer, in bytes. */
const maxWords = 64 * 1024;

/** Ends a wait when the signal is aborted. Needed because undici checks a request's signal only once it is connected. */
function orAborted<T>(wait: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return wait;
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort);
    wait.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/** The only way to send requests to the service: base address, token, timeouts, and readable errors. */
export class Connection implements NextCommands {
  readonly #address: URL;
  readonly #agent: Dispatcher;
  readonly #connector: Connector;
  readonly #options: ConnectionOptions;
  #isMet = false;
  /** Time of the first failed attempt to reach the server, in milliseconds; null if none has failed. */
  #absentSince: number | null = null;
  /** Milliseconds by which the server's clock is ahead of this machine's. */
  #ahead = 0;

  /** @throws UsageError for an invalid address */
  constructor(options: ConnectionOptions) {
    this.#address = readServerUrl(options.server);
    this.#options = options;
    const { transport, trust, connectTimeout: timeout } = options;
    this.#connector = new Connector({ server: this.server, timeout, transport, trust });
    this.#agent = new Agent({
      connect: this.#connector.connect,
      headersTimeout: options.readTimeout * 1000,
      bodyTimeout: options.readTimeout * 1000,
    }).compose(readToTheEnd);
  }

  /** The address, without a slash at the end. */
  get server(): string {
    return showServerUrl(this.#address);
  }

  nextCommand(words: string): string {
    return nextCommand(words, this.#options.serverFlags);
  }

  /** Seconds. */
  get readTimeout(): number {
    return this.#options.readTimeout;
  }

  get signal(): AbortSignal | undefined {
    return this.#options.signal;
  }

  /** Whether the server has answered. A proxy saying that it cannot reach the server does not count. */
  get isMet(): boolean {
    return this.#isMet;
  }

  /** The time by the server's clock, derived from its last answer: this machine's clock may be hours off. */
  now(): number {
    return Date.now() + this.#ahead;
  }

  /** Seconds for which a server that has answered before is retried while it is unreachable. */
  get longestOutage(): number {
    return this.#options.patience;
  }

  /** A new patience for this server, for one task, such as one upload. */
  patience(watcher?: Watcher): Patience {
    return new Patience(this.#options.patience, this.signal, watcher);
  }

  /**
   * Waits before a request is repeated to a server that may be starting.
   * @returns false if the server has answered before, or the time is up
   */
  async #waitsForStart(why: string, { body, signal = this.signal }: Call): Promise<boolean> {
    const { start } = this.#options;
    if (!start || this.#isMet || body) return false;
    const now = monotonicTime();
    const isFirst = this.#absentSince === null;
    this.#absentSince ??= now;
    const left = start.seconds * 1000 - (now - this.#absentSince);
    if (left <= 0) return false;
    if (isFirst) start.tell(`${why}; in case it is starting, trying again for another ${start.seconds} s`);
    await pause(Math.min(500, left), signal);
    return true;
  }

  /**
   * Sends one request. `path` comes from contract/routes.ts and is appended to the path of the address.
   * @throws TransportError, or the reason of the signal that ended it
   */
  async send(path: string, call: Call = {}): Promise<Reply> {
    for (;;) {
      try {
        const reply = await this.#askOnce(path, call);
        const isAbsent = !this.#isMet && isGatewayError(reply.statusCode);
        if (!isAbsent || !(await this.#waitsForStart(`${this.server} is not up yet`, call))) return reply;
        discard(reply);
      } catch (error) {
        const isRefused = error instanceof TransportError && codeOf(error) === 'ECONNREFUSED';
        if (!isRefused || !(await this.#waitsForStart(error.message, call))) throw error;
      }
    }
  }

  async #askOnce(path: string, call: Call): Promise<Reply> {
    const { token, transport } = this.#options;
    const base = transport?.base ?? this.#address;
    const target = `${base.pathname === '/' ? '' : base.pathname}${path}${call.query ?? ''}`;
    const { forward } = transport ?? {};
    const signal = call.signal ?? this.signal;
    signal?.throwIfAborted();
    try {
      const answered = this.#agent.request({
        origin: forward?.origin ?? base.origin,
        path: forward ? `${base.origin}${target}` : target,
        method: call.method ?? 'GET',
        headers: {
          ...call.headers,
          ...(token ? { authorization: `${authScheme} ${token}` } : {}),
          ...(forward ? { host: base.host, ...forward.headers } : {}),
        },
        // undici accepts any iterable, although its types do not say so; a stream would read ahead.
        body: (call.body ?? null) as Readable | null,
        ...(call.headTimeout === undefined ? {} : { headersTimeout: call.headTimeout * 1000 }),
        // Interim answers (1xx) also count as activity.
        onInfo: this.#limit(call.headTimeout ?? this.readTimeout),
        ...(call.bodyTimeout === undefined ? {} : { bodyTimeout: call.bodyTimeout * 1000 }),
        ...(signal ? { signal } : {}),
      });
      const reply = await orAborted(answered, signal);
      if (!isGatewayError(reply.statusCode)) {
        this.#isMet = true;
        const date = Date.parse(header(reply, 'date') ?? '');
        if (!Number.isNaN(date)) this.#ahead = date - Date.now();
      }
      return reply;
    } catch (error) {
      throw (await transport?.explain?.(error)) ?? this.explain(error, signal);
    }
  }

  /** For endless bodies: the returned function throws after this many seconds. 0 means no limit. */
  #limit(seconds: number): () => void {
    const end = monotonicTime() + (seconds || Number.POSITIVE_INFINITY) * 1000;
    return () => {
      if (monotonicTime() > end) throw notInTime(this.server);
    };
  }

  /**
   * Reads the body of an error answer, which holds a sentence. A longer body is cut off and treated as empty.
   * @throws TransportError if the connection breaks
   */
  async words(reply: Reply, signal: AbortSignal | undefined = this.signal): Promise<string> {
    return (await this.#body(reply, maxWords, signal)) ?? '';
  }

  /** The error for a request with this answer. @param path that was requested */
  async refused(
    reply: Reply,
    path: string,
    signal: AbortSignal | undefined = this.signal,
  ): Promise<HttpError> {
    return this.refusal(reply, path, await this.words(reply, signal));
  }

  /** The error for a request with this answer, whose body was already read. */
  refusal(reply: Reply, path: string, text: string): Promise<HttpError> {
    const { transport } = this.#options;
    return refusal(reply, text, { server: this.server, path, transport, list: this.nextCommand('jobs') });
  }

  /**
   * Parses and checks the body of an answer.
   * @param path that was requested
   * @throws HttpError for every status but 2xx; AnswerError for an unexpected body
   */
  async read<T>(
    reply: Reply,
    path: string,
    answer: Answer<T>,
    signal: AbortSignal | undefined = this.signal,
  ): Promise<T> {
    if (reply.statusCode >= 300) throw await this.refused(reply, path, signal);
    const text = await this.#body(reply, answer.maxBytes, signal);
    if (text === null) throw tooLong(this.server, path, answer.maxBytes);
    return readAnswer(this.server, path, text, answer);
  }

  /**
   * Sends one request that is answered with JSON. Unless a signal is given, the whole call has a time limit.
   * @throws HttpError for every status but 2xx; AnswerError for an unexpected body
   */
  async json<T>(path: string, answer: Answer<T>, call: Call = {}): Promise<T> {
    using limit = new TimeLimit(call.limit ?? this.readTimeout, this.signal);
    const signal = call.signal ?? limit.signal;
    for (let failures = 0; ; failures += 1) {
      try {
        return await this.read(await this.send(path, { ...call, signal }), path, answer, signal);
      } catch (error) {
        // A GET may be repeated; a request that changes something may not.
        const isBroken = error instanceof TransportError && error.fault === 'broken';
        if (!isBroken || (call.method ?? 'GET') !== 'GET' || failures >= questionsAgain) throw error;
        await pause(backoff(failures, 200), signal).catch((reason: unknown) => {
          // After the time limit, the last connection error is more helpful. An interruption is thrown unchanged.
          throw reason instanceof ClientError ? reason : error;
        });
      }
    }
  }

  async #body(reply: Reply, maxBytes: number, signal: AbortSignal | undefined): Promise<string | null> {
    try {
      return await readBody(reply, maxBytes, this.#limit(this.readTimeout));
    } catch (error) {
      throw this.explain(error, signal);
    }
  }

  /** Turns a failure below HTTP into a readable error. */
  explain(error: unknown, signal: AbortSignal | undefined = this.signal): Error {
    const { transport } = this.#options;
    return explainTransport(error, this.server, signal, transport?.forward ? transport.name : undefined);
  }

  /** Closes all sockets at once. */
  async close(): Promise<void> {
    this.#connector.close();
    await Promise.all([this.#agent.destroy(), this.#options.transport?.close()]);
  }
}
