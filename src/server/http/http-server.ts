import { createServer, type RequestListener, type Server } from 'node:http';
import { limitConnections } from './connection-limit.js';
import { answerUnread, refuseWithoutHost } from './unread-requests.js';

/** The HTTP server of the service; it does not listen yet. */
export function httpServer(handler: RequestListener): Server {
  // Of a connection that was cut, requests may still come that it had sent before.
  const answer: RequestListener = (request, response) => {
    if (request.socket.destroyed || refuseWithoutHost(request, response)) return;
    handler(request, response);
  };
  // A slow upload is no attack: an idle one is cut by the upload itself.
  const server = createServer(
    {
      requestTimeout: 0,
      headersTimeout: 60_000,
      keepAliveTimeout: 75_000,
      highWaterMark: 1 << 18,
      requireHostHeader: false,
    },
    answer,
  );
  // Without a listener Node would tell the client to send before anything was checked.
  server.on('checkContinue', answer);
  answerUnread(server);
  limitConnections(server);
  return server;
}
