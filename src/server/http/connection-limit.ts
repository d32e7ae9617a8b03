import { readFileSync } from 'node:fs';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ServiceError } from '../../contract/index.js';
import { bareAnswer, endWith } from './error-answer.js';

/** Descriptors that are reserved for jobs, their logs, records and runners, and for packing; at most half of all. */
const reserve = 128;
/** Descriptors of a connection with a request: the socket, and the file that the request reads or writes. */
const perConnection = 2;

/**
 * Requests that may be under way on one connection. Browsers and our own client send one at a time. A pipelined request
 * holds open what it answers with until the answers before it are sent.
 */
const perSocket = 4;

/** The limit of descriptors of this process; infinite if the system does not tell. */
function descriptorLimit(): number {
  try {
    const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1')) ?? [];
    return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** Number of connections for a limit of descriptors. */
export const connectionsFor = (descriptors: number): number =>
  Math.max(1, Math.floor((descriptors - Math.min(reserve, descriptors / 2)) / perConnection));

/** The answer to a connection that is one too many. */
function refusal(): string {
  const detail = 'Server busy: all its connections have a request under way; try again soon';
  return bareAnswer(new ServiceError('tooManyConnections', detail));
}

/**
 * Limits the connections of a server by the number of descriptors that the process may have: without a free descriptor no
 * job can be started, read or ended. At the limit, the connection that has been idle for the longest time is closed for a
 * new one, so that silent clients keep nobody out. A new connection is refused only if no other is idle. A connection with
 * more than `perSocket` requests under way is closed.
 */
export function limitConnections(server: Server, limit = connectionsFor(descriptorLimit())): void {
  const all = new Set<Socket>();
  /** Idle connections, the longest idle first. */
  const idle = new Set<Socket>();
  /** Requests under way on each connection: a client may send several before the first is answered. */
  const requests = new WeakMap<Socket, number>();

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
    const underWay = (requests.get(socket) ?? 0) + 1;
    requests.set(socket, underWay);
    if (underWay > perSocket) socket.destroy();
    response.once('close', () => {
      const left = (requests.get(socket) ?? 1) - 1;
      requests.set(socket, left);
      if (left === 0 && all.has(socket)) idle.add(socket);
    });
  };
  for (const event of ['request', 'checkContinue', 'checkExpectation'])
    server.prependListener(event, onRequest);
}
