import { readFileSync } from 'node:fs';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ServiceError } from '../../contract/errors.js';
import { bareAnswer, endWith } from './error-answer.js';

/** Descriptors that are kept for jobs, their logs, records and runners, and for packing; of few, half. */
const reserve = 128;
/** Descriptors of a connection whose request is served: its own, and that of the file which it reads or writes. */
const perConnection = 2;

/**
 * Requests that may be under way on one connection. Browsers and our own client send one after the other; each that
 * waits for the answers before its own keeps what it answers with open.
 */
const perSocket = 4;

/** How many descriptors this process may have; infinite where the system does not tell. */
function descriptorLimit(): number {
  try {
    const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1')) ?? [];
    return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** How many connections a process with so many descriptors may have. */
export const connectionsFor = (descriptors: number): number =>
  Math.max(1, Math.floor((descriptors - Math.min(reserve, descriptors / 2)) / perConnection));

/** What a client is told for whom there is no place. */
function refusal(): string {
  const detail = 'Server busy: all its connections have a request under way; try again soon';
  return bareAnswer(new ServiceError('tooManyConnections', detail));
}

/**
 * Bounds the connections of a server by the descriptors that the process may have: with none left, no job can be
 * started, read or ended. Where the bound is reached, the connection that has had no request under way for the longest
 * time makes place for the new one, so that clients that connect and say nothing keep nobody out. A new one is refused
 * only where all others have a request under way. A connection with more requests under way than `perSocket` is cut.
 */
export function limitConnections(server: Server, limit = connectionsFor(descriptorLimit())): void {
  const all = new Set<Socket>();
  /** Connections without a request, those that have been so for the longest time first. */
  const idle = new Set<Socket>();
  /** How many requests are under way on a connection: a client may send several before the first is answered. */
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
