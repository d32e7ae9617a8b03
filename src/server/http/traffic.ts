import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** Counts the bytes of all connections of a server, those that are closed and those that are open. */
export class Traffic {
  readonly #open = new Set<Socket>();
  #received = 0;
  #sent = 0;

  constructor(server: Server) {
    server.prependListener('connection', (socket: Socket) => {
      this.#open.add(socket);
      socket.once('close', () => {
        this.#open.delete(socket);
        this.#received += socket.bytesRead;
        this.#sent += socket.bytesWritten;
      });
    });
  }

  /** Bytes since the start. */
  get transferred(): { readonly received: number; readonly sent: number } {
    const open = [...this.#open];
    return {
      received: open.reduce((sum, { bytesRead }) => sum + bytesRead, this.#received),
      sent: open.reduce((sum, { bytesWritten }) => sum + bytesWritten, this.#sent),
    };
  }
}
