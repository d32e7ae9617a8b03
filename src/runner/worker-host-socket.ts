import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import {
  type HostMessage,
  isClosed,
  onMessages,
  sendMessage,
  type WorkerState,
  withSocketAddress,
} from './protocol.js';

/** Callbacks for the requests on the socket. */
interface Handlers {
  readonly state: () => WorkerState;
  /** What it throws ends the connection. */
  readonly job: (runner: Socket, message: Extract<HostMessage, { kind: 'job' }>) => void;
  readonly stop: (runner: Socket) => void;
  /** A connection was closed, which may have been a runner's. */
  readonly closed: (socket: Socket) => void;
  readonly leave: () => void;
  /** A server has connected or disconnected. */
  readonly attached: () => void;
}

/**
 * The socket through which runners and the server reach the worker host. Only its own user can connect, because others may not
 * enter its directory.
 */
export class WorkerHostSocket {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #servers = new Set<Socket>();

  constructor(private readonly handlers: Handlers) {
    this.#server = createServer((socket) => this.#accept(socket));
  }

  async open(directory: string): Promise<void> {
    withSocketAddress(directory, (address) => this.#server.listen(address));
    await once(this.#server, 'listening');
  }

  /** Whether a server is connected. */
  get isAttached(): boolean {
    return this.#servers.size > 0;
  }

  sendState(): void {
    const state = this.handlers.state();
    for (const socket of this.#servers) sendMessage(socket, { kind: 'state', state });
  }

  /** Accepts no more connections, and closes the existing ones once everything sent has arrived. */
  async close(patience: number): Promise<void> {
    this.#server.close();
    const closed = [...this.#sockets].map((socket) => {
      socket.end();
      socket.resume();
      return isClosed(socket);
    });
    const timer = setTimeout(() => {
      for (const socket of this.#sockets) socket.destroy();
    }, patience);
    await Promise.all(closed);
    clearTimeout(timer);
  }

  #accept(socket: Socket): void {
    this.#sockets.add(socket);
    onMessages(socket, (message) => this.#handle(socket, message));
    socket.once('close', () => {
      this.#sockets.delete(socket);
      this.handlers.closed(socket);
      if (this.#servers.delete(socket)) this.handlers.attached();
    });
  }

  #handle(socket: Socket, message: HostMessage): void {
    const { kind } = message;
    if (kind === 'job') this.handlers.job(socket, message);
    else if (kind === 'stop') this.handlers.stop(socket);
    else if (kind === 'leave') this.handlers.leave();
    else if (kind === 'attach') {
      this.#servers.add(socket);
      this.handlers.attached();
      sendMessage(socket, { kind: 'state', state: this.handlers.state() });
    }
  }
}
