import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import type { ErrorBody } from '../../contract/errors.js';

const contentType = 'application/json; charset=utf-8';

/** An error answer as bytes, for a connection whose request could not be read. */
export function bareAnswer(status: number, detail: string, retryAfter?: number): string {
  const body = JSON.stringify({ detail } satisfies ErrorBody);
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    `Content-Type: ${contentType}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...(retryAfter === undefined ? [] : [`Retry-After: ${retryAfter}`]),
    'Connection: close',
  ];
  return `${head.join('\r\n')}\r\n\r\n${body}`;
}

/** Sends such an answer and closes the connection. */
export function endWith(socket: Duplex, answer: string): void {
  socket.on('error', () => {});
  socket.end(answer, () => socket.destroy());
}

/**
 * Sends an error answer without Koa. The rest of the request is not read, so the connection is closed behind the answer.
 */
export function endResponse(response: ServerResponse, status: number, detail: string): void {
  const body = JSON.stringify({ detail } satisfies ErrorBody);
  const length = Buffer.byteLength(body);
  response.writeHead(status, { 'Content-Type': contentType, 'Content-Length': length, Connection: 'close' });
  response.end(body);
}
