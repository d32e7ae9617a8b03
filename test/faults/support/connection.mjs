import { once } from 'node:events';
import { connect } from 'node:net';
import { until, within } from './until.mjs';

/** One answer out of what was received, or null while it is not whole. */
function parse(bytes, isClosed, withoutBody) {
  const end = bytes.indexOf('\r\n\r\n');
  if (end < 0) return null;
  const head = bytes.toString('latin1', 0, end);
  const status = Number(head.slice(9, 12));
  if (!/^HTTP\/1\.1 \d{3} /.test(head)) return { status: 0, head, body: head, length: bytes.length };
  if (status < 200) return parse(bytes.subarray(end + 4), isClosed, withoutBody);
  const start = end + 4;
  const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1];
  const whole = (size, body) => ({ status, head, body: body.toString('latin1'), length: start + size });
  if (withoutBody || status === 204 || status === 304) return whole(0, Buffer.alloc(0));
  if (length !== undefined) {
    const size = Number(length);
    return bytes.length < start + size ? null : whole(size, bytes.subarray(start, start + size));
  }
  if (!/\r\ntransfer-encoding: chunked/i.test(head)) {
    return isClosed ? whole(bytes.length - start, bytes.subarray(start)) : null;
  }
  const last = bytes.indexOf('\r\n0\r\n\r\n', start - 2);
  return last < 0 ? null : whole(last + 7 - start, bytes.subarray(start, last));
}

/**
 * A bare connection: for requests that no HTTP client would send. Other than that of the tests
 * (`test/support/raw-http.ts`) it takes one answer after the other from the connection, chunked ones and broken ones
 * too, and may be half closed.
 */
export class Connection {
  received = Buffer.alloc(0);
  isClosed = false;
  isEnded = false;

  constructor(socket) {
    this.socket = socket;
    socket.on('data', (chunk) => {
      this.received = this.received.length === 0 ? chunk : Buffer.concat([this.received, chunk]);
      this.#changed();
    });
    // A reset also closes the connection.
    socket.on('error', () => {});
    // The server says nothing more, though this end is still open.
    socket.once('end', () => {
      this.isEnded = true;
      this.#changed();
    });
    socket.once('close', () => {
      this.isEnded = true;
      this.isClosed = true;
      this.#changed();
    });
  }

  static async open(url) {
    const { hostname, port } = new URL(url);
    const socket = connect({ host: hostname, port: Number(port), noDelay: true, allowHalfOpen: true });
    await within('a connection opens', once(socket, 'connect'));
    return new Connection(socket);
  }

  write(bytes) {
    return new Promise((resolve) => this.socket.write(bytes, () => resolve()));
  }

  /** The next answer; null where the connection closes without one. */
  async answer(what, { withoutBody = false } = {}) {
    for (;;) {
      const answer = parse(this.received, this.isEnded, withoutBody);
      if (answer !== null) {
        this.received = this.received.subarray(answer.length);
        return answer;
      }
      if (this.isEnded) return null;
      await within(what, new Promise((resolve) => (this.#wake = resolve)));
    }
  }

  until(text) {
    return until(`'${text}' is received`, () => this.received.includes(text) || this.isEnded);
  }

  reset() {
    this.socket.resetAndDestroy();
  }

  close() {
    this.socket.destroy();
  }

  #wake = () => {};

  #changed() {
    this.#wake();
  }
}
