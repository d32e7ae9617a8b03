import { createServer, type RequestListener, type Server } from 'node:http';
import { noteAddresses } from './client-address.js';
import { limitConnections } from './connection-limit.js';
import { dropBehindAnswers } from './early-answers.js';
import { answerUnread, refuseWithoutHost } from './unread-requests.js';

/** Makes the HTTP server of the service. It does not listen yet. */
export function httpServer(handler: RequestListener): Server {
  // A connection that was closed may still deliver requests that it had sent before.
  const answer: RequestListener = (request, response) => {
    if (!request.socket.writable || refuseWithoutHost(request, response)) return;
    handler(request, response);
  };
  // No time limit for a whole request: an upload may be slow. An idle upload is ended in uploads/receive.
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
  // Without this listener Node would answer `100 Continue` before anything is checked.
  server.on('checkContinue', answer);
  answerUnread(server);
  noteAddresses(server);
  limitConnections(server);
  dropBehindAnswers(server);
  return server;
}
