import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { authScheme, type ErrorBody, errorKinds, mediaTypes, ServiceError } from '../../contract/index.js';
import { type Connection, header, type Reply } from '../connection/index.js';
import { HttpError, isGatewayError, isRedirect, proxyLoginStatus, TransportError } from '../errors.js';

type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** Headers that concern one connection instead of the message (RFC 9110, 7.6.1). */
const ofConnection =
  'connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade';

/**
 * Request headers that are not forwarded: the server gets a different address and token, and a compressed answer might be held
 * back until there is enough of it.
 */
const ofGateway = ['host', 'authorization', 'expect', 'accept-encoding'];

/**
 * The headers of a message that are forwarded.
 * @param dropped names of further headers to leave out
 */
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

/** The body of a request. The client is asked for it only when the connection to the server is ready to take it. */
async function* bodyOf(request: IncomingMessage, response: ServerResponse): AsyncGenerator<Buffer> {
  if (request.headers.expect !== undefined) response.writeContinue();
  try {
    // If the server answers before the body is complete, the client must still be able to read the answer.
    yield* request.iterator({ destroyOnReturn: false });
  } finally {
    // Discards the rest of the body if the client sends it anyway; otherwise the client would wait forever.
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

/** Statuses for a server that did not answer, as used by proxies. */
const unanswered = { badGateway: 502, timeout: 504 } as const;

/**
 * Whether an answer concerns the connection to the server, which is the gateway's business: its token, a login to its proxy, a
 * redirect, or a proxy's page about an unreachable server. A client would think that its own token was refused, and would follow
 * a redirect with that token.
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
    // No time limit applies while a body is being sent.
    ...(hasBody(request) ? { body: bodyOf(request, response), headTimeout: 0 } : {}),
  });
  if (isAboutTheWay(reply)) throw await connection.refused(reply, path, signal);
  return reply;
}

/**
 * Forwards a request to the server, and its answer to the client. Both are streamed at the speed of their reader and never
 * stored; only an answer that ends with its connection is not slowed down (see `readToTheEnd`). If the client disconnects, the
 * request to the server is aborted; if the server's answer breaks off, so does the client's.
 * @param onAnswer gets the error if the server gave no answer, otherwise null
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
    // Sends the headers now, because a log may have no line for a while.
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
