import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** One request as it arrived. */
export interface Received {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

export type Handler = (
  request: Received,
  response: ServerResponse,
  raw: IncomingMessage,
) => void | Promise<void>;

/** A real HTTP server on a free port that answers as the test says, also in ways that no server should. */
export class ScriptedServer {
  readonly received: Received[] = [];

  private constructor(
    readonly server: Server,
    readonly url: string,
  ) {}

  /** @param early answers before the body is read */
  static async start(handler: Handler, early = false): Promise<ScriptedServer> {
    const server = createServer((raw, response) => {
      void (async () => {
        const head = { method: raw.method ?? '', url: raw.url ?? '', headers: raw.headers };
        const chunks: Buffer[] = [];
        if (!early) {
          try {
            for await (const chunk of raw) chunks.push(chunk);
          } catch {
            return;
          }
        }
        const request = { ...head, body: Buffer.concat(chunks) };
        scripted.received.push(request);
        await handler(request, response, raw);
      })();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const scripted = new ScriptedServer(server, `http://127.0.0.1:${port}`);
    return scripted;
  }

  /** The requests whose path begins with this. */
  to(path: string): Received[] {
    return this.received.filter(({ url }) => url.startsWith(path));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

export function json(response: ServerResponse, status: number, body: unknown, headers = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}

/** The form of a submission, read by a parser other than ours. */
export async function formOf(request: Received): Promise<FormData> {
  const headers = { 'content-type': request.headers['content-type'] ?? '' };
  return new Response(new Uint8Array(request.body), { headers }).formData();
}
