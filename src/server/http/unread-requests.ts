import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { oneLine, ServiceError } from '../../contract/index.js';
import { bareAnswer, endResponse, endWith } from './error-answer.js';

/** The error of Node's parser for a request that it cannot read. */
interface ParserError extends NodeJS.ErrnoException {
  readonly reason?: string;
}

function errorOf({ code, reason = '' }: ParserError): ServiceError {
  if (code === 'HPE_HEADER_OVERFLOW') {
    return new ServiceError('headersTooLarge', 'The headers of the request are too long; send fewer');
  }
  if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW') {
    return new ServiceError('uploadTooLarge', 'The chunk extensions of the request are too long; send none');
  }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new ServiceError('uploadStalled', 'The request did not come in time; send it again');
  }
  const why = reason === '' ? '' : `: ${oneLine(reason)}`;
  return new ServiceError('badRequest', `The request is not valid HTTP${why}`);
}

/** Answers a request of HTTP/1.1 without a `Host` (RFC 9112, 3.2). Returns whether it was one. */
export function refuseWithoutHost(
  { httpVersion, headers }: IncomingMessage,
  response: ServerResponse,
): boolean {
  const isRefused = httpVersion === '1.1' && headers.host === undefined;
  if (isRefused)
    endResponse(response, new ServiceError('badRequest', "The request has no header 'Host'; send one"));
  return isRefused;
}

/** Ends a connection whose request cannot be read. The answers to whole requests before that one come first. */
function refuse(socket: Socket, cause: ParserError): void {
  // Must not write into the middle of an answer under way. Node checks the same field.
  const { _httpMessage: current } = socket as Socket & { _httpMessage?: ServerResponse };
  if (current?.req.complete && !socket.destroyed) {
    current.once('close', () => refuse(socket, cause));
    return;
  }
  if (socket.writable && !current?.headersSent) socket.write(bareAnswer(errorOf(cause)));
  socket.destroy(cause);
}

/** Gives requests that Node itself would refuse with a status and no body an answer with the usual error body. */
export function answerUnread(server: Server): void {
  const refused = new WeakSet<Socket>();
  server.on('clientError', (cause: ParserError, socket: Socket) => {
    // Each further packet of an unreadable request is another error.
    if (refused.has(socket)) return;
    refused.add(socket);
    refuse(socket, cause);
  });
  server.on('checkExpectation', (_request: IncomingMessage, response: ServerResponse) => {
    const detail = "The request expects what is not done here; send no 'Expect'";
    endResponse(response, new ServiceError('badExpectation', detail));
  });
  server.on('connect', (_request: IncomingMessage, socket: Socket) => {
    const detail = 'This server is not a proxy; it does not support CONNECT';
    endWith(socket, bareAnswer(new ServiceError('methodNotAllowed', detail)));
  });
}
