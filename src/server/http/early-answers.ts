import type { IncomingMessage, Server, ServerResponse } from 'node:http';

/** Milliseconds for which the rest of a request is read and dropped. */
const maxWait = 30_000;

/** Reads and drops the rest of a request. One that takes longer is cut. */
function dropRest(request: IncomingMessage, limit: number): void {
  const timer = setTimeout(() => request.destroy(), limit).unref();
  for (const event of ['end', 'close']) request.once(event, () => clearTimeout(timer));
  request.resume();
}

/**
 * Reads and drops what still comes of a request that is refused, so that the client can read the answer: closing a connection
 * with unread bytes resets it. A client that sends at full speed, as nginx does, then fails to write before it has read.
 * Where the answer is the last one of its connection, as it always is for nginx, Node would close both directions behind it:
 * here the client is told at once that nothing more comes, and may still send. Such a connection counts as idle.
 */
export function dropBehindAnswers(server: Server, limit = maxWait): void {
  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request;
    // Before Node's own listener, which closes the connection.
    response.prependOnceListener('finish', () => {
      if (request.complete || request.destroyed) return;
      const isLast = !response.shouldKeepAlive;
      if (isLast) {
        socket.destroySoon = () => socket.end();
        request.once('end', () => socket.destroy());
      }
      if (isLast || response.statusCode >= 400) dropRest(request, limit);
    });
  };
  for (const event of ['request', 'checkContinue', 'checkExpectation'])
    server.prependListener(event, onRequest);
}
