import type { Socket } from 'node:net';
import type { SecureContext } from 'node:tls';
import { excerpt } from '../../contract/index.js';
import { ClientError, type HttpError, TransportError } from '../errors.js';
import { AnswerError } from './answers.js';

/** How the server is reached indirectly: through a proxy or ssh. */
export interface Transport {
  /** The proxy or the tunnel, as the beginning of a sentence: `The proxy http://proxy.example.org:3128 (HTTPS_PROXY)`. */
  readonly name: string;
  /** Opens a connection whose bytes arrive at the server. Without it, requests are sent to `forward`. */
  readonly open?: () => Promise<Socket>;
  /** The proxy that reads each request and passes it on, and the headers that it needs. */
  readonly forward?: { readonly origin: string; readonly headers: Readonly<Record<string, string>> };
  /** The base address of requests, if it differs from the address that the user gave. */
  readonly base?: URL;
  /** The error for status 407 from the proxy. @param asked the proxy's challenge */
  loginRefused?(asked: string): HttpError;
  /** A connection failure whose cause lies in the proxy or tunnel; null if it lies elsewhere. */
  explain?(error: unknown): Promise<Error | null>;
  close(): Promise<void>;
}

/** Certificates that are trusted in addition to Node's own. */
export interface Trust {
  /** Where they come from, for error messages. */
  readonly file: string;
  readonly context: SecureContext;
}

/** How TLS connections are made. Certificates are checked even if `NODE_TLS_REJECT_UNAUTHORIZED` is 0. */
export const tlsOptions = (trust: Trust | undefined) => ({
  rejectUnauthorized: true,
  ...(trust ? { secureContext: trust.context } : {}),
});

/** Error codes of Node and undici that mean that no connection was made, with their reasons. */
const unreached: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there',
  ENOTFOUND: 'no such host',
  EAI_AGAIN: 'the host name could not be looked up',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to the network',
  UND_ERR_CONNECT_TIMEOUT: 'the connection timed out',
};

/** The first error code of an error and its causes; empty if there is none. */
export function codeOf(error: unknown): string {
  for (let each = error; each instanceof Error; each = each.cause) {
    const { code } = each as NodeJS.ErrnoException;
    if (typeof code === 'string') return code;
  }
  return '';
}

/** Why no connection was made; undefined for another kind of failure. */
export const unreachedReason = (error: unknown): string | undefined => unreached[codeOf(error)];

/** Whether the other side closed a connection during a request. */
export const wasClosed = (error: unknown): boolean =>
  ['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'].includes(codeOf(error));

/** Why a connection broke, for errors whose own message does not help a user. */
const brokenReasons: Readonly<Record<string, string>> = {
  'other side closed': 'it was closed on the other side',
  ECONNRESET: 'it was closed on the other side',
  EPIPE: 'it was closed on the other side',
};

const silent = new Set(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT']);

/** Endless headers, and answers that undici considers impossible, such as one with status 099. */
const noHttp = new Set(['UND_ERR_HEADERS_OVERFLOW', 'ERR_ASSERTION']);

/**
 * Whether the other side does not speak HTTP, so that a retry would not help. In that case, the parser's error contains the bytes
 * that it failed at; if the connection only ended too soon, there are none.
 */
function isNoHttp(error: unknown): boolean {
  if (noHttp.has(codeOf(error))) return true;
  return error instanceof Error && error.name === 'HTTPParserError' && 'data' in error && error.data !== '';
}

/** The error for an answer that takes too long. */
export const notInTime = (server: string, options?: ErrorOptions): TransportError =>
  new TransportError('timeout', `${server} did not answer in time`, options);

/**
 * Turns a failure below HTTP into a readable error. The reason of an aborted signal takes precedence; an already readable error
 * is returned unchanged.
 * @param through the proxy used for connections, as the beginning of a sentence
 */
export function explainTransport(
  error: unknown,
  server: string,
  signal?: AbortSignal,
  through: string | undefined = undefined,
): Error {
  if (signal?.aborted) {
    const reason: unknown = signal.reason;
    if (reason instanceof ClientError) return reason;
    if (reason instanceof DOMException && reason.name === 'TimeoutError') {
      return notInTime(server, { cause: error });
    }
  }
  if (error instanceof ClientError) return error;
  const code = codeOf(error);
  const why = unreachedReason(error);
  if (why !== undefined) {
    return new TransportError('unreached', `${through ?? server} cannot be reached: ${why}`, {
      cause: error,
    });
  }
  if (silent.has(code)) {
    return new TransportError('timeout', `${server} has been silent for too long`, { cause: error });
  }
  const text = excerpt(error instanceof Error ? error.message : String(error));
  if (isNoHttp(error)) {
    // The message of an assertion error is about undici's internals.
    const how = code === 'ERR_ASSERTION' ? '' : `: ${text}`;
    return new AnswerError(server, `answered with something that is not HTTP${how}`, { cause: error });
  }
  if (/CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|ERR_SSL/.test(code)) {
    return new TransportError('unusable', `TLS with ${server} fails: ${text}`, { cause: error });
  }
  const how = brokenReasons[text] ?? brokenReasons[code] ?? text;
  return new TransportError('broken', `The connection to ${server} broke: ${how}`, { cause: error });
}

/** Replaces the scheme of an address. */
export const under = (scheme: string, server: string): string => server.replace(/^https?:/, `${scheme}:`);

/** The error for a plain request to a port that speaks TLS. */
export const needsTls = (server: string): TransportError =>
  new TransportError('unusable', `${server} speaks TLS; use ${under('https', server)}`);
