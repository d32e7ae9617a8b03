import { once } from 'node:events';
import { createServer } from 'node:http';

/** A server that answers every request in one strange way. */
export class StrangeServer {
  constructor(server) {
    this.server = server;
    this.url = `http://127.0.0.1:${server.address().port}`;
  }

  /** @param answer takes the request and the response; what it throws ends the connection */
  static async start(context, answer) {
    const server = createServer({ keepAliveTimeout: 1000 }, async (request, response) => {
      response.on('error', () => {});
      request.resume();
      try {
        await answer({ request, response, random: context.random });
      } catch {
        request.socket.destroy();
      }
    });
    server.on('connection', (socket) => socket.on('error', () => {}));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new StrangeServer(server);
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }
}

/** Writes a piece; resolves when there is room for another, and throws when nobody is there to read it. */
export async function send(stream, piece) {
  if (stream.destroyed) throw new Error('the client has left');
  if (stream.write(piece)) return;
  const settled = new AbortController();
  const { signal } = settled;
  const either = ['drain', 'close'].map((name) => once(stream, name, { signal }));
  await Promise.race(either);
  settled.abort();
  await Promise.allSettled(either);
}

/** The same text again and again, up to so many mebibytes. */
export async function flood(stream, text, mebibytes) {
  const block = Buffer.from(text.repeat(Math.ceil(2 ** 20 / text.length)));
  for (let count = 0; count < mebibytes; count += 1) await send(stream, block);
}
