import { createServer, type RequestListener, type Server } from 'node:http';
import { limitConnections } from './connection-limit.js';

/** The HTTP server of the service; it does not listen yet. */
export function httpServer(handler: RequestListener): Server {
  // A slow upload is no attack: an idle one is cut by the upload itself.
  const server = createServer(
    { requestTimeout: 0, headersTimeout: 60_000, keepAliveTimeout: 75_000, highWaterMark: 1 << 18 },
    handler,
  );
  // Without a listener Node would tell the client to send before anything was checked.
  server.on('checkContinue', handler);
  limitConnections(server);
  return server;
}
