import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { until } from './until.mjs';

/** A plain TCP connection, for requests that no HTTP client would send and for the exact bytes of answers. */
export class RawConnection implements AsyncDisposable {
  /** What was received, one character per byte. */
  received = '';
  isClosed = false;

  private constructor(readonly socket: Socket) {
    socket.on('data', (chunk: Buffer) => {
      this.received += chunk.toString('latin1');
    });
    // A reset also closes the connection.
    socket.on('error', () => {});
    socket.once('close', () => {
      this.isClosed = true;
    });
  }

  /** @param allowHalfOpen whether it stays open when the server has closed its side */
  static async open(url: string, { allowHalfOpen = false } = {}): Promise<RawConnection> {
    const { hostname, port } = new URL(url);
    const socket = connect({ host: hostname, port: Number(port), noDelay: true, allowHalfOpen });
    await once(socket, 'connect');
    return new RawConnection(socket);
  }

  write(bytes: string | Uint8Array): void {
    this.socket.write(bytes);
  }

  /** Reads only the first chunk that arrives, until the socket is resumed. */
  readOneChunk(): void {
    this.socket.once('data', () => this.socket.pause());
  }

  /** Waits until this was received. */
  async until(pattern: RegExp): Promise<void> {
    await until(`${pattern} is received`, () => {
      if (pattern.test(this.received)) return true;
      if (this.isClosed) throw new Error(`Closed before ${pattern} was received: ${this.received}`);
      return false;
    });
  }

  /** Waits for the complete answer and returns its status and body. */
  async answer(): Promise<{ status: number; head: string; body: string }> {
    await this.until(/^HTTP\/1\.1 [2-5]\d\d [^\r]*\r\n[\s\S]*\r\n\r\n/);
    const [head = '', ...rest] = this.received.split('\r\n\r\n');
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
    await until('the whole answer', () => this.received.length >= head.length + 4 + length || this.isClosed);
    return {
      status: Number(head.slice(9, 12)),
      head,
      body: this.received.slice(head.length + 4) || rest.join(),
    };
  }

  /** Cuts the connection. */
  async destroy(): Promise<void> {
    if (this.isClosed) return;
    this.socket.resetAndDestroy();
    // It may already have closed by itself.
    await until('the connection is closed', () => this.isClosed || this.socket.closed);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.destroy();
  }
}
