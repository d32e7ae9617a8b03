import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** The bytes of all connections, closed and open ones. */
export class Traffic {
  readonly #open = new Set<Socket>();
  #received = 0;
  #sent = 0;

  /** Counts the connections of a server from now on. */
  count(server: Server): void {
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
