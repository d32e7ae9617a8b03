import { type OutgoingHttpHeaders, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Context, Middleware } from 'koa';
import type { Principal } from '../../access/index.js';
import {
  authScheme,
  type ErrorBody,
  internalError,
  mediaTypes,
  oneLine,
  ServiceError,
} from '../../contract/index.js';
import { errorCode, isDiskFull, isFileTooLarge, isOutOfInodes, isShortage } from '../../files/index.js';
import type { ServerEvents } from '../events.js';
import type { Report } from '../report.js';
import { UploadsMissing } from '../uploads-missing.js';

const contentType = `${mediaTypes.json}; charset=utf-8`;

/**
 * The status, headers and body of the answer for an error (docs/http.md, Errors). All error bodies are written here, with the
 * headers that some errors need.
 */
function errorAnswer(error: ServiceError) {
  const { status, retryAfter } = error.kind;
  const uploads = error instanceof UploadsMissing ? error.uploads : undefined;
  const headers: Record<string, string> = {};
  if (status === 401) headers['WWW-Authenticate'] = authScheme;
  if (retryAfter !== undefined) headers['Retry-After'] = String(retryAfter);
  return {
    status,
    headers,
    contentType,
    body: JSON.stringify({ detail: error.detail, uploads } satisfies ErrorBody),
  };
}

/** An error answer as bytes, for a connection whose request could not be read. */
export function bareAnswer(error: ServiceError): string {
  const { status, headers, body } = errorAnswer(error);
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    `Content-Type: ${contentType}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    'Connection: close',
  ];
  return `${head.join('\r\n')}\r\n\r\n${body}`;
}

/** Sends such an answer and closes the connection. */
export function endWith(socket: Duplex, answer: string): void {
  socket.on('error', () => {});
  socket.end(answer, () => socket.destroy());
}

/** Sends an error answer without Koa. Its headers replace all that were set before. */
export function sendError(
  response: ServerResponse,
  error: ServiceError,
  more: OutgoingHttpHeaders = {},
): void {
  const { status, headers, body } = errorAnswer(error);
  for (const name of response.getHeaderNames()) response.removeHeader(name);
  for (const [name, value] of Object.entries({ ...more, ...headers, 'Content-Type': contentType })) {
    if (value !== undefined) response.setHeader(name, value);
  }
  response.statusCode = status;
  response.end(body);
}

/** Sends an error answer without Koa, then closes the connection. */
export function endResponse(response: ServerResponse, error: ServiceError): void {
  response.shouldKeepAlive = false;
  sendError(response, error);
}

/** Maximum number of characters of a request's path that an answer repeats. */
const maxShown = 300;

/** The path of a request, which comes from outside, shortened to fit into a sentence. */
const shown = (address: string): string => oneLine(address.slice(0, maxShown));

/** Whether an error is due to a shortage on this machine rather than to the request. */
const isOfMachine = (cause: unknown): boolean =>
  isDiskFull(cause) || isFileTooLarge(cause) || isShortage(cause);

/**
 * Converts any error to a ServiceError for the client. Unknown errors are hidden from the client, and reported in the server's
 * log.
 */
function toServiceError(cause: unknown, ctx: Context, report: Report): ServiceError {
  if (cause instanceof ServiceError) return cause;
  // An invalid URL, whose path even Koa cannot read.
  if (errorCode(cause) === 'ERR_INVALID_URL') {
    return new ServiceError('badRequest', 'The address of the request is not valid');
  }
  if (!ctx.req.destroyed || ctx.req.complete || isOfMachine(cause))
    report(`${ctx.method} ${ctx.path} failed`, cause);
  if (isDiskFull(cause)) {
    const detail = isOutOfInodes(cause)
      ? "No inodes (files) are left on the server's disk; try again later, or ask its admin to remove files there"
      : "The server's disk is full; try again later";
    return new ServiceError('diskFull', detail);
  }
  if (isFileTooLarge(cause)) {
    const detail =
      "The server may not write files of this size: its admin must raise its limit of a file's size (ulimit -f)";
    return new ServiceError('unwritable', detail);
  }
  if (isShortage(cause))
    return new ServiceError('shortage', 'The server has too many files open at the moment; try again soon');
  return internalError();
}

/** Middleware that turns anything thrown by later middleware into an error answer (docs/http.md, Errors). */
export function handleErrors(report: Report, events: ServerEvents): Middleware {
  return async (ctx, next) => {
    try {
      // A request must not have a fragment: Koa would cut it off, and a proxy's rule for a path would not.
      if (ctx.url.includes('#'))
        throw new ServiceError('notFound', `There is no ${ctx.method} ${shown(ctx.url)}`);
      await next();
      if (ctx.status === 404 && ctx.body === undefined) {
        throw new ServiceError('notFound', `There is no ${ctx.method} ${shown(ctx.path)}`);
      }
      // The router answers 501 to a method that no route has.
      if ((ctx.status === 405 || ctx.status === 501) && ctx.body === undefined) {
        throw new ServiceError('methodNotAllowed', `${shown(ctx.path)} does not take ${ctx.method}`);
      }
    } catch (cause) {
      const error = toServiceError(cause, ctx, report);
      const { status, headers, contentType, body } = errorAnswer(error);
      ctx.status = status;
      ctx.set({ ...headers, 'Content-Type': contentType });
      ctx.body = body;
      const { method, ip: from } = ctx;
      ctx.state.isRefused = true;
      const { name: owner = null, role = null } = (ctx.state.principal ?? {}) as Partial<Principal>;
      const { _matchedRouteName: route = null } = ctx as { _matchedRouteName?: string };
      const { code, detail } = error;
      // Not a refusal: the client asked whether it has to send a file, and this is the answer.
      if (method === 'HEAD' && code === 'unknownUpload') return;
      // Not ctx.path, because that throws for an invalid URL. An upload's name is replaced, because it reveals which scan was
      // sent.
      const path = shown(ctx.url.split('?', 1)[0] ?? '').replace(/[0-9a-f]{64}/gi, '{sha256}');
      events.announce('refused', { method, path, status, error: code, detail, from, owner, role, route });
    }
  };
}
