import { once } from 'node:events';
import { Agent, type IncomingMessage, type RequestOptions, request } from 'node:http';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import type { ConnectionOptions } from '../../../src/client/connection/connection.js';
import { openGateway } from '../../../src/client/gateway/index.js';
import { connectTo } from '../support/connect.js';

/** The token that the server of a test asks for. */
export const token = 'token-of-the-server';

/** A gateway to a server, and what it tells of answers. */
export async function gatewayTo(server: string, options: Partial<ConnectionOptions> = {}, port = 0) {
  const connection = connectTo(server, { token, ...options });
  const told: (string | null)[] = [];
  const gateway = await openGateway(connection, port, (problem) => told.push(problem?.message ?? null));
  return {
    ...gateway,
    told,
    url: `http://127.0.0.1:${gateway.port}`,
    authorization: { authorization: `Bearer ${gateway.secret}` },
    [Symbol.asyncDispose]: async () => {
      await gateway.close();
      await connection.close();
    },
  };
}
export type OpenGateway = Awaited<ReturnType<typeof gatewayTo>>;

/** A request through a gateway, with its secret unless the headers say otherwise. */
export function begin(gateway: OpenGateway, path: string, { headers = {}, ...options }: RequestOptions = {}) {
  const all = { ...gateway.authorization, ...headers };
  return request({ host: '127.0.0.1', port: gateway.port, path, agent: false, ...options, headers: all });
}

/** The answer to a request whose body this is. */
export async function answerTo(
  sent: ReturnType<typeof begin>,
  body: Iterable<Buffer> | AsyncIterable<Buffer> = [],
): Promise<IncomingMessage> {
  const answered = once(sent, 'response');
  const sending = pipeline(Readable.from(body), sent);
  const [[response]] = (await Promise.all([answered, sending])) as [[IncomingMessage], undefined];
  return response;
}

/** Status, headers and text of an answer. */
export async function ask(gateway: OpenGateway, path: string, options: RequestOptions = {}) {
  const response = await answerTo(begin(gateway, path, options));
  return { status: response.statusCode, headers: response.headers, body: await text(response) };
}

/** A client that keeps its connection for the next request. */
export const keepingAgent = () => new Agent({ keepAlive: true, maxSockets: 1 });
