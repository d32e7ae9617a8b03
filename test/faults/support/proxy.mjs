import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** A fault of one connection: after so many bytes of one direction, this happens to it. */
export const faultKinds = ['cut', 'reset', 'stall', 'stall and cut'];

/**
 * A TCP proxy between a client and a server. Each new connection takes the next fault of the plan, if any is left;
 * a fault is { kind, direction: 'up' | 'down', after: bytes, pause: ms }.
 */
export class FaultyProxy {
  faults = [];
  /** How many faults have occurred. */
  happened = 0;
  #server;
  #sockets = new Set();

  /** @param target gives the url of the server behind, which may change when it is started again */
  constructor(target) {
    this.target = target;
  }

  static async open(target) {
    const proxy = new FaultyProxy(target);
    proxy.#server = createServer({ allowHalfOpen: true }, (socket) => proxy.#accept(socket));
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get url() {
    return `http://127.0.0.1:${this.#server.address().port}`;
  }

  async close() {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #accept(client) {
    const url = this.target();
    if (url === '') {
      // Nothing is listening behind the proxy at the moment.
      client.on('error', () => {});
      client.resetAndDestroy();
      return;
    }
    const fault = this.faults.shift();
    const { hostname, port } = new URL(url);
    const server = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ]) {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      // If one side breaks, the other is closed as well, as a middlebox does.
      socket.on('error', () => other.destroy());
      socket.once('close', () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
    this.#copy(client, server, fault?.direction === 'up' ? fault : undefined).catch(() => {});
    this.#copy(server, client, fault?.direction === 'down' ? fault : undefined).catch(() => {});
  }

  /** Copies one direction. The fault occurs after its bytes have passed. */
  async #copy(from, to, fault) {
    let left = fault?.after ?? Number.POSITIVE_INFINITY;
    for await (const chunk of from.iterator({ destroyOnReturn: false })) {
      if (chunk.length >= left) {
        if (left > 0) to.write(chunk.subarray(0, left));
        await this.#happen(fault, from, to);
        if (from.destroyed) return;
        to.write(chunk.subarray(left));
        left = Number.POSITIVE_INFINITY;
      } else {
        left -= chunk.length;
        if (!to.write(chunk)) await Promise.race([once(to, 'drain'), once(to, 'close')]);
      }
    }
    to.end();
  }

  async #happen({ kind, pause }, from, to) {
    this.happened += 1;
    if (kind.startsWith('stall')) await delay(pause);
    if (kind === 'stall') return;
    const end = kind === 'reset' ? 'resetAndDestroy' : 'destroy';
    // Lets the bytes that were already written go out first.
    await delay(5);
    from[end]();
    to[end]();
  }
}
