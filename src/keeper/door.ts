import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { type Frame, FrameReader, frameKinds, isClosed, sendFrame } from '../runner/frames.js';
import { type KeeperState, withSocketAddress } from '../runner/worker-files.js';

/** A job as its runner hands it over: what the worker is told, as it stands. */
export interface JobCall {
  readonly job: string;
  readonly arguments: readonly string[];
  readonly directory: string;
  readonly environment: Readonly<Record<string, string>>;
}

/** Who is told of what comes through the door. */
export interface DoorHandlers {
  readonly state: () => KeeperState;
  readonly job: (runner: Socket, call: JobCall) => void;
  readonly stop: (runner: Socket) => void;
  /** A connection is closed; it may have been that of a runner. */
  readonly closed: (socket: Socket) => void;
  readonly leave: () => void;
  /** The number of servers that are attached has changed. */
  readonly attached: () => void;
}

/** The keeper's socket, through which runners and the server come. Only its user may connect: its directory is closed. */
export class Door {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #servers = new Set<Socket>();

  constructor(private readonly handlers: DoorHandlers) {
    this.#server = createServer((socket) => this.#welcome(socket));
  }

  async open(directory: string): Promise<void> {
    withSocketAddress(directory, (address) => this.#server.listen(address));
    await once(this.#server, 'listening');
  }

  /** Whether a server is told of the state. */
  get isAttached(): boolean {
    return this.#servers.size > 0;
  }

  tellState(): void {
    const state = JSON.stringify(this.handlers.state());
    for (const socket of this.#servers) sendFrame(socket, frameKinds.state, state);
  }

  /** Takes no more connections, and closes those that there are once what was sent has arrived. */
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

  #welcome(socket: Socket): void {
    const frames = new FrameReader();
    this.#sockets.add(socket);
    socket.on('data', (chunk: Buffer) => {
      try {
        for (const frame of frames.push(chunk)) this.#handle(socket, frame);
      } catch {
        // Not one of ours.
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
