import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import {
  type Frame,
  FrameReader,
  frameKinds,
  isClosed,
  type JobCall,
  sendFrame,
  type WorkerState,
  withSocketAddress,
} from './protocol.js';

/** What to do with each request. */
interface Handlers {
  readonly state: () => WorkerState;
  readonly job: (runner: Socket, call: JobCall) => void;
  readonly stop: (runner: Socket) => void;
  /** A connection was closed; it may have been a runner's. */
  readonly closed: (socket: Socket) => void;
  readonly leave: () => void;
  /** A server has connected or disconnected. */
  readonly attached: () => void;
}

/**
 * The socket through which runners and the server reach the worker host. Only its user may connect: others may not enter its
 * directory.
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
    const state = JSON.stringify(this.handlers.state());
    for (const socket of this.#servers) sendFrame(socket, frameKinds.state, state);
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
    const frames = new FrameReader();
    this.#sockets.add(socket);
    socket.on('data', (chunk: Buffer) => {
      try {
        for (const frame of frames.push(chunk)) this.#handle(socket, frame);
      } catch {
        // The other side does not speak this protocol.
        socket.destroy();
      }
    });
    socket.on('error', () => {});
    socket.once('close', () => {
      this.#sockets.delete(socket);
      this.handlers.closed(socket);
      if (this.#servers.delete(socket)) this.handlers.attached();
    });
  }

  #handle(socket: Socket, { kind, payload }: Frame): void {
    if (kind === frameKinds.job) this.handlers.job(socket, JSON.parse(`${payload}`) as JobCall);
    else if (kind === frameKinds.stop) this.handlers.stop(socket);
    else if (kind === frameKinds.leave) this.handlers.leave();
    else if (kind === frameKinds.attach) {
      this.#servers.add(socket);
      this.handlers.attached();
      sendFrame(socket, frameKinds.state, JSON.stringify(this.handlers.state()));
    }
  }
}
