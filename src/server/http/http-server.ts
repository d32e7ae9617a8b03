import { readFileSync } from 'node:fs';
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  ServerResponse,
} from 'node:http';
import type { Socket } from 'node:net';
import { oneLine, ServiceError } from '../../contract/index.js';
import { orElse } from '../../files/index.js';
import { noteAddresses } from './client-address.js';
import { bareAnswer, endWith } from './errors.js';

/** Number of descriptors reserved for jobs, their logs, records and runners, and for packing; at most half of all. */
const reserve = 128;
/** Number of descriptors per connection with a request: the socket, and the file that the request reads or writes. */
const perConnection = 2;

/**
 * Maximum number of requests in progress on one connection. Browsers and our own client send one at a time. A pipelined request
 * holds the resources of its answer until the answers before it are sent.
 */
const perSocket = 4;

/** This process's limit of open files; infinite if the system does not report it. */
function descriptorLimit(): number {
  const limits = orElse(() => readFileSync('/proc/self/limits', 'latin1'), '');
  return Number(/^Max open files +(\d+)/m.exec(limits)?.[1] ?? Number.POSITIVE_INFINITY);
}

/** Maximum number of connections of this process. */
export const maxConnections = (): number => connectionsFor(descriptorLimit());

/** Number of connections for a limit of descriptors. */
export const connectionsFor = (descriptors: number): number =>
  Math.max(1, Math.floor((descriptors - Math.min(reserve, descriptors / 2)) / perConnection));

/** The answer that refuses a connection beyond the limit. */
function refusal(): string {
  const detail = 'Server busy: all connections are in use; try again soon';
  return bareAnswer(new ServiceError('tooManyConnections', detail));
}

/** The answers in progress on each connection, oldest first: a client may send several requests before the first is answered. */
type Unanswered = WeakMap<Socket, Set<ServerResponse>>;

/**
 * Limits a server's connections according to the process's limit of descriptors: without a free descriptor, no job can be
 * started, read or ended. At the limit, the connection that has been idle longest is closed for a new one, so that silent clients
 * cannot keep others out. A new connection is refused only if none is idle. A connection with more than `perSocket` requests in
 * progress is closed.
 */
function limitConnections(server: Server, unanswered: Unanswered): void {
  const limit = maxConnections();
  const all = new Set<Socket>();
  /** Idle connections, idle longest first. */
  const idle = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    if (all.size >= limit) {
      const [oldest] = idle;
      if (!oldest) {
        endWith(socket, refusal());
        return;
      }
      all.delete(oldest);
      idle.delete(oldest);
      oldest.destroy();
    }
    all.add(socket);
    idle.add(socket);
    socket.once('close', () => {
      all.delete(socket);
      idle.delete(socket);
    });
  });

  const onRequest = ({ socket }: IncomingMessage, response: ServerResponse) => {
    idle.delete(socket);
    const underWay = unanswered.get(socket) ?? new Set();
    unanswered.set(socket, underWay.add(response));
    if (underWay.size > perSocket) socket.destroy();
    const onAnswer = () => {
      underWay.delete(response);
      if (underWay.size === 0 && all.has(socket)) idle.add(socket);
    };
    response.once('answered', onAnswer).once('close', onAnswer);
  };
  for (const event of ['request', 'checkContinue']) server.prependListener(event, onRequest);
}

/**
 * An answer that lets its client finish sending. Closing a connection with unread bytes resets it, and a client that sends at
 * full speed, such as nginx, would then see a failed write before it reads the answer. Therefore the rest of a refused request is
 * read and discarded, for a limited time. If the answer is the last of its connection, as every answer is for nginx, Node would
 * close both directions at the answer's end. Instead, the whole answer is written and only the server's own direction is closed;
 * the answer ends for Node when the client has sent everything. Meanwhile, the connection counts as idle.
 */
export class PatientResponse<
  Request extends IncomingMessage = IncomingMessage,
> extends ServerResponse<Request> {
  /** Milliseconds for which the rest of a request is read, at most. */
  static readonly maxRest: number = 30_000;
  /**
   * Number of bytes of the body that were written, without chunk framing. If the connection broke, the last of them did not
   * arrive.
   */
  bodyBytes = 0;
  #isEnded = false;

  /** Accepts the same arguments as Node's `write`. */
  override write(...words: [unknown, unknown?, unknown?]): boolean {
    this.bodyBytes += Buffer.byteLength(words[0] as string | Uint8Array);
    return super.write(...(words as Parameters<ServerResponse['write']>));
  }

  /** Accepts the same arguments as Node's `end`. */
  override end(...words: [unknown?, unknown?, unknown?]): this {
    const { req, socket } = this;
    const finish = () => super.end(...(words as Parameters<ServerResponse['end']>));
    if (this.#isEnded || req.complete || req.destroyed || socket === null) return finish();
    this.#isEnded = true;
    const isLast = !this.shouldKeepAlive;
    if (!isLast && this.statusCode < 400) return finish();
    const timer = setTimeout(
      () => req.destroy(),
      (this.constructor as typeof PatientResponse).maxRest,
    ).unref();
    for (const event of ['end', 'close']) req.once(event, () => clearTimeout(timer));
    req.resume();
    if (!isLast) return finish();
    const [content] = words;
    if (typeof content === 'string' || content instanceof Uint8Array) {
      if (!this.headersSent && !this.hasHeader('Content-Length'))
        this.setHeader('Content-Length', Buffer.byteLength(content));
      this.write(content);
    } else this.flushHeaders();
    socket.end();
    this.emit('answered');
    const done = words.find((each) => typeof each === 'function') as (() => void) | undefined;
    req.once('end', () => super.end(done));
    return this;
  }
}

/** The error for a request that Node's parser cannot read. */
interface ParserError extends NodeJS.ErrnoException {
  readonly reason?: string;
}

function errorOf({ code, reason = '' }: ParserError): ServiceError {
  if (code === 'HPE_HEADER_OVERFLOW') {
    return new ServiceError('headersTooLarge', 'The headers of the request are too long; send fewer');
  }
  if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW') {
    return new ServiceError('uploadTooLarge', 'The chunk extensions of the request are too long; send none');
  }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new ServiceError('uploadStalled', 'The request did not arrive in time; send it again');
  }
  const why = reason === '' ? '' : `: ${oneLine(reason)}`;
  return new ServiceError('badRequest', `The request is not valid HTTP${why}`);
}

/** Ends a connection with an unreadable request, once all earlier requests are answered. */
function refuse(socket: Socket, cause: ParserError, unanswered: Unanswered): void {
  // Writing now would corrupt an answer in progress, so its end is awaited.
  const [current] = unanswered.get(socket) ?? [];
  if (current?.req.complete && !socket.destroyed) {
    current.once('close', () => refuse(socket, cause, unanswered));
    return;
  }
  if (socket.writable && !current?.headersSent) socket.write(bareAnswer(errorOf(cause)));
  socket.destroy(cause);
}

/** Adds the usual error body to answers that Node itself would send without one. */
function answerUnread(server: Server, unanswered: Unanswered): void {
  const refused = new WeakSet<Socket>();
  server.on('clientError', (cause: ParserError, socket: Socket) => {
    // Each further packet of an unreadable request causes another error.
    if (refused.has(socket)) return;
    refused.add(socket);
    refuse(socket, cause, unanswered);
  });
}

/** Creates the HTTP server of the service, which does not listen yet. */
export function httpServer(handler: RequestListener): Server {
  // A closed connection may still deliver requests that arrived before it was closed.
  const answer: RequestListener = (request, response) => {
    if (request.socket.writable) handler(request, response);
  };
  // No time limit for a whole request, because uploads may be slow. An idle upload is ended in http/request-body.
  const server = createServer(
    {
      requestTimeout: 0,
      headersTimeout: 60_000,
      keepAliveTimeout: 75_000,
      highWaterMark: 1 << 18,
      ServerResponse: PatientResponse,
    },
    answer,
  );
  // Without this listener Node would answer `100 Continue` before anything is checked.
  server.on('checkContinue', answer);
  const unanswered: Unanswered = new WeakMap();
  answerUnread(server, unanswered);
  noteAddresses(server);
  limitConnections(server, unanswered);
  return server;
}
