import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { errorKinds } from '../../contract/errors.js';
import { oneLine } from '../../contract/quote.js';
import { bareAnswer, endResponse, endWith } from './bare-answer.js';

/** The error of Node's parser for a request that it cannot read. */
interface ParserError extends NodeJS.ErrnoException {
  readonly reason?: string;
}

function answerTo({ code, reason = '' }: ParserError): string {
  if (code === 'HPE_HEADER_OVERFLOW') {
    return bareAnswer(
      errorKinds.headersTooLarge.status,
      'The headers of the request are too long; send fewer',
    );
  }
  if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW') {
    return bareAnswer(
      errorKinds.uploadTooLarge.status,
      'The chunk extensions of the request are too long; send none',
    );
  }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return bareAnswer(errorKinds.uploadStalled.status, 'The request did not come in time; send it again');
  }
  const why = reason === '' ? '' : `: ${oneLine(reason)}`;
  return bareAnswer(errorKinds.badRequest.status, `The request is not valid HTTP${why}`);
}

/** Answers a request of HTTP/1.1 without a `Host` (RFC 9112, 3.2). Returns whether it was one. */
export function refuseWithoutHost(
  { httpVersion, headers }: IncomingMessage,
  response: ServerResponse,
): boolean {
  const isRefused = httpVersion === '1.1' && headers.host === undefined;
  if (isRefused)
    endResponse(response, errorKinds.badRequest.status, "The request has no header 'Host'; send one");
  return isRefused;
}

/** Gives requests that Node itself would refuse with a status and no body an answer with the usual error body. */
export function answerUnread(server: Server): void {
  server.on('clientError', (cause: ParserError, socket: Socket) => {
    // Must not write into the middle of an answer under way. Node checks the same field.
    const { _httpMessage: current } = socket as Socket & { _httpMessage?: ServerResponse };
    if (socket.writable && !current?.headersSent) socket.write(answerTo(cause));
    socket.destroy(cause);
  });
  server.on('checkExpectation', (_request: IncomingMessage, response: ServerResponse) => {
    endResponse(
      response,
      errorKinds.badExpectation.status,
      "The request expects what is not done here; send no 'Expect'",
    );
  });
  server.on('connect', (_request: IncomingMessage, socket: Socket) => {
    endWith(
      socket,
      bareAnswer(errorKinds.methodNotAllowed.status, 'This server is no proxy; it does not take CONNECT'),
    );
  });
}
