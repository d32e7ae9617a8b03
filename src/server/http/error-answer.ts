import { type OutgoingHttpHeaders, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { authScheme, type ErrorBody, mediaTypes, type ServiceError } from '../../contract/index.js';

const contentType = `${mediaTypes.json}; charset=utf-8`;

/**
 * The answer for an error (interface.md, Errors). The bodies of all errors are written here, and the headers that some of
 * them need.
 */
export function errorAnswer({ kind: { status, retryAfter }, detail }: ServiceError) {
  const headers: Record<string, string> = {};
  if (status === 401) headers['WWW-Authenticate'] = authScheme;
  if (retryAfter !== undefined) headers['Retry-After'] = String(retryAfter);
  return { status, headers, contentType, body: JSON.stringify({ detail } satisfies ErrorBody) };
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

/** Drops the headers that were prepared for another answer. */
function clearHeaders(response: ServerResponse): void {
  for (const name of response.getHeaderNames()) response.removeHeader(name);
}

/** Sends an error answer without Koa, with these headers in place of those that were prepared. */
export function sendError(response: ServerResponse, error: ServiceError, more: OutgoingHttpHeaders): void {
  const { status, headers, body } = errorAnswer(error);
  clearHeaders(response);
  for (const [name, value] of Object.entries({ ...more, ...headers, 'Content-Type': contentType })) {
    if (value !== undefined) response.setHeader(name, value);
  }
  response.statusCode = status;
  response.end(body);
}

/** Sends an error answer without Koa, and closes the connection behind it. */
export function endResponse(response: ServerResponse, error: ServiceError): void {
  const { status, headers, body } = errorAnswer(error);
  clearHeaders(response);
  const length = Buffer.byteLength(body);
  response.shouldKeepAlive = false;
  response.writeHead(status, { 'Content-Type': contentType, 'Content-Length': length, ...headers });
  response.end(body);
}
