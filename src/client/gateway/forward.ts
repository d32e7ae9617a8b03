import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { authScheme, type ErrorBody, errorKinds, mediaTypes, ServiceError } from '../../contract/index.js';
import { type Connection, header, type Reply } from '../connection/index.js';
import { HttpError, isGatewayError, isRedirect, proxyLoginStatus, TransportError } from '../errors.js';

type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** Headers about one connection and not about the message (RFC 9110, 7.6.1). */
const ofConnection =
  'connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade';

/**
 * Headers of a request that are the gateway's own business: to the server it has another address and another token. An
 * encoded answer might be held back until there is enough of it to compress.
 */
const ofGateway = ['host', 'authorization', 'expect', 'accept-encoding'];

/** The headers of a message that are passed on, without those that are dropped. */
function passedOn(headers: Headers, dropped: readonly string[] = []): Record<string, string | string[]> {
  const named = String(headers.connection ?? '').toLowerCase();
  const left = new Set([...ofConnection.split(' '), ...dropped, ...named.split(/[\s,]+/)]);
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined || left.has(name) ? [] : [[name, value]],
    ),
  );
}

export const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;

/** The body of a request, read when the connection to the server takes it, which is when the client is asked for it. */
async function* bodyOf(request: IncomingMessage, response: ServerResponse): AsyncGenerator<Buffer> {
  if (request.headers.expect !== undefined) response.writeContinue();
  try {
    // The client still reads the answer of a server that has answered before the end.
    yield* request.iterator({ destroyOnReturn: false });
  } finally {
    // A client that sends the rest all the same would otherwise wait for somebody to read it.
    request.resume();
  }
}

/** Answers with one sentence, as the service does. */
function answerError(response: ServerResponse, status: number, detail: string): void {
  const body: ErrorBody = { detail };
  const isLogin = status === errorKinds.missingToken.status;
  response.writeHead(status, {
    'content-type': mediaTypes.json,
    ...(isLogin ? { 'www-authenticate': authScheme } : {}),
  });
  response.end(JSON.stringify(body));
}

/** Statuses for a server that did not answer, as proxies have them. */
const unanswered = { badGateway: 502, timeout: 504 } as const;

/**
 * Whether an answer is about the way to the server, which is the gateway's business: its token, a login to its proxy, another
 * address, or a proxy's page about a server that is away. The client would take the first for its own token, and follow the
 * third with it.
 */
const isAboutTheWay = (reply: Reply): boolean =>
  [errorKinds.invalidToken.status, proxyLoginStatus].some((status) => status === reply.statusCode) ||
  (isRedirect(reply.statusCode) && header(reply, 'location') !== undefined) ||
  (isGatewayError(reply.statusCode) && !header(reply, 'content-type')?.includes(mediaTypes.json));

async function ask(
  connection: Connection,
  request: IncomingMessage,
  response: ServerResponse,
  signal: AbortSignal,
): Promise<Reply> {
  const [, path = '', query = ''] = /^([^?]*)(.*)$/s.exec(request.url ?? '') ?? [];
  const reply = await connection.send(path, {
    method: request.method,
    query,
    headers: passedOn(request.headers, ofGateway),
    signal,
    // Sending a body has no time limit.
    ...(hasBody(request) ? { body: bodyOf(request, response), headTimeout: 0 } : {}),
  });
  if (isAboutTheWay(reply)) throw await connection.refused(reply, path, signal);
  return reply;
}

/**
 * Sends a request on to the server, and its answer back. Both are streams that wait for their reader, and neither is kept; only an
 * answer that ends with its connection does not wait (see `readToTheEnd`). If the client goes away, so does the request to the
 * server; if the server's answer breaks off, the client's does too.
 * @param onAnswer is told the error if the server gave no answer, and null if it did
 */
export async function forward(
  connection: Connection,
  request: IncomingMessage,
  response: ServerResponse,
  onAnswer: (problem: Error | null) => void,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  try {
    const reply = await ask(connection, request, response, gone.signal);
    onAnswer(null);
    response.writeHead(reply.statusCode, passedOn(reply.headers));
    // A log may have no line for a while.
    response.flushHeaders();
    await pipeline(reply.body, response);
  } catch (error) {
    if (gone.signal.aborted || response.headersSent) return;
    const problem = error instanceof Error ? error : new Error(String(error));
    if (problem instanceof TransportError || problem instanceof HttpError) onAnswer(problem);
    const isLate = problem instanceof TransportError && problem.fault === 'timeout';
    answerError(response, isLate ? unanswered.timeout : unanswered.badGateway, problem.message);
  }
}

/** Answers a request that is refused. */
export function refuse(response: ServerResponse, error: unknown): void {
  const { kind, detail } =
    error instanceof ServiceError ? error : new ServiceError('badRequest', String(error));
  answerError(response, kind.status, detail);
}
