import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import type { ErrorBody } from '../contract/errors.js';

/** An error's answer as it goes over the wire, for a connection on which no request was read. */
export function bareAnswer(status: number, detail: string, retryAfter?: number): string {
  const body = JSON.stringify({ detail } satisfies ErrorBody);
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...(retryAfter === undefined ? [] : [`Retry-After: ${retryAfter}`]),
    'Connection: close',
  ];
  return `${head.join('\r\n')}\r\n\r\n${body}`;
}

/** Sends it, and closes the connection. */
export function endWith(socket: Duplex, answer: string): void {
  socket.on('error', () => {});
  socket.end(answer, () => socket.destroy());
}
