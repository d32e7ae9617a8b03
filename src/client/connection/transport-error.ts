import { excerpt } from '../../contract/quote.js';
import { ClientError, TransportError } from '../errors.js';
import { AnswerError } from './check-answer.js';
import { codeOf, unreachedReason, wasClosed } from './transport/socket-faults.js';

/** How a connection broke, where the words of the system or of undici for it are no sentence. */
const brokenReasons: Readonly<Record<string, string>> = {
  'other side closed': 'it was closed on the other side',
  ECONNRESET: 'it was closed on the other side',
  EPIPE: 'it was closed on the other side',
};

const silent = new Set(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT']);

/** Headers without end; what undici takes to be impossible, as an answer with the status 099. */
const noHttp = new Set(['UND_ERR_HEADERS_OVERFLOW', 'ERR_ASSERTION']);

/**
 * Whether the other side does not speak HTTP, so that a retry would not help. The parser's error then has a name and the
 * bytes that it failed at; it has no bytes if the connection ended too soon.
 */
function isNoHttp(error: unknown): boolean {
  if (noHttp.has(codeOf(error))) return true;
  return error instanceof Error && error.name === 'HTTPParserError' && 'data' in error && error.data !== '';
}

/** Whether a port closed a plain connection as one that speaks TLS may do: without a word, or with an alert. */
export const mayBeTls = (error: unknown): boolean =>
  wasClosed(error) ||
  (isNoHttp(error) && String((error as { data?: unknown }).data).startsWith('\u0015\u0003'));

/** The error where an answer takes too long. */
export const notInTime = (server: string, options?: ErrorOptions): TransportError =>
  new TransportError('timeout', `${server} did not answer in time`, options);

/**
 * Explains a failure below HTTP to the person at the keyboard. The reason of an aborted signal comes first; an error that
 * is explained already stays as it is.
 * @param through the proxy that connections are made to, as a sentence begins
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
    // The words of an assertion are about undici.
    const how = code === 'ERR_ASSERTION' ? '' : `: ${text}`;
    return new AnswerError(server, `answered with something that is not HTTP${how}`, { cause: error });
  }
  if (/CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|ERR_SSL/.test(code)) {
    return new TransportError('unusable', `TLS with ${server} fails: ${text}`, { cause: error });
  }
  const how = brokenReasons[text] ?? brokenReasons[code] ?? text;
  return new TransportError('broken', `The connection to ${server} broke: ${how}`, { cause: error });
}
