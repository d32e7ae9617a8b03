import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import path from 'node:path';
import { finished } from 'node:stream/promises';

/** Passes bytes on to a server, and keeps what clients write: a file for each connection. */
export class WireRecorder {
  #server;
  #sockets = new Set();
  #files = [];
  #directory;
  #cutAfter = Number.POSITIVE_INFINITY;
  /** Connections that it has broken. */
  cuts = 0;

  static async before(target, directory) {
    const recorder = new WireRecorder();
    recorder.#directory = directory;
    recorder.#server = createServer((socket) => recorder.#pass(socket, Number(new URL(target).port)));
    await once(recorder.#server.listen(0, '127.0.0.1'), 'listening');
    recorder.url = `http://127.0.0.1:${recorder.#server.address().port}`;
    return recorder;
  }

  #pass(socket, port) {
    const file = path.join(this.#directory, `connection-${this.#files.length}`);
    const kept = createWriteStream(file);
    this.#files.push({ file, kept });
    const onward = connect(port, '127.0.0.1');
    const end = () => {
      socket.destroy();
      onward.destroy();
      kept.end();
    };
    for (const each of [socket, onward]) {
      this.#sockets.add(each);
      each.on('error', end).on('close', end);
    }
    let count = 0;
    socket.on('data', (chunk) => {
      kept.write(chunk);
      count += chunk.length;
      if (count < this.#cutAfter) return;
      this.#cutAfter = Number.POSITIVE_INFINITY;
      this.cuts += 1;
      end();
    });
    socket.pipe(onward).pipe(socket);
  }

  /** Breaks the next connection over which a client has written this many bytes. */
  cutAfter(bytes) {
    this.#cutAfter = bytes;
  }

  /** What clients have written so far, by connections, which are closed. */
  async take() {
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
    const files = this.#files.splice(0);
    await Promise.all(files.map(({ kept }) => finished(kept.end())));
    return Promise.all(files.map(({ file }) => readFile(file)));
  }

  async stop() {
    await this.take();
    this.#server.close();
  }
}
