import type { AddressInfo } from 'node:net';
import { connect, createServer, type Socket } from 'node:net';
import { gunzipSync, inflateSync } from 'node:zlib';
import { unzip } from './unzip.mjs';
import { isArchive, sentFiles } from './wire.mjs';

/** Passes bytes on to a server and records everything that clients send. It can cut connections. */
export class WireTap implements AsyncDisposable {
  /** What came over each connection, in the order in which they were made. */
  #received: Buffer[][] = [];
  readonly #sockets = new Set<Socket>();
  readonly #clients = new Set<Socket>();
  #length = 0;
  #cutAt = Number.POSITIVE_INFINITY;
  #onCut: () => void = () => {};

  private constructor(
    readonly url: string,
    private readonly server: ReturnType<typeof createServer>,
  ) {}

  static async before(target: string): Promise<WireTap> {
    const { port } = new URL(target);
    const server = createServer((socket) => {
      const onward = connect(Number(port), '127.0.0.1');
      for (const each of [socket, onward]) {
        tap.#sockets.add(each);
        each.on('error', () => {
          socket.destroy();
          onward.destroy();
        });
      }
      tap.#clients.add(socket);
      const chunks: Buffer[] = [];
      socket.on('data', (chunk: Buffer) => tap.#came(chunk, chunks));
      socket.pipe(onward).pipe(socket);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const tap: WireTap = new WireTap(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, server);
    return tap;
  }

  #came(chunk: Buffer, chunks: Buffer[]): void {
    if (!this.#received.includes(chunks)) this.#received.push(chunks);
    chunks.push(chunk);
    this.#length += chunk.length;
    if (this.#length < this.#cutAt) return;
    this.#cutAt = Number.POSITIVE_INFINITY;
    this.#onCut();
  }

  /** Once this many bytes have been sent, cuts all connections once, or does something else. */
  cutAt(length: number, cut = () => this.cut()): void {
    this.#cutAt = length;
    this.#onCut = cut;
  }

  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
    this.#clients.clear();
  }

  /** Stops reading from connected clients. What they have already sent still arrives. */
  hold(): void {
    for (const socket of this.#clients) socket.unpipe().pause();
  }

  /** How many bytes were sent so far. */
  get length(): number {
    return this.#length;
  }

  /** Everything that was sent so far, one connection after another. */
  get sent(): Buffer {
    return Buffer.concat(this.#received.flat());
  }

  forget(): void {
    for (const chunks of this.#received) chunks.length = 0;
    this.#received = [];
    this.#length = 0;
  }

  /** The files that were sent, each name with its bytes; those of archives as `archive/entry`. */
  get files(): [name: string, bytes: Buffer][] {
    const connections = this.#received.map((chunks) => Buffer.concat(chunks));
    return sentFiles(connections).flatMap(({ name, bytes, isWhole }): [string, Buffer][] => {
      if (!isArchive(bytes) || !isWhole) return [[name, bytes]];
      const entries = [...unzip(bytes)].map(([entry, each]): [string, Buffer] => [`${name}/${entry}`, each]);
      return [[name, bytes], ...entries];
    });
  }

  /** Everything that was sent, as text, with compressed parts unpacked. */
  get everything(): string {
    const unpacked = this.files.flatMap(([name, bytes]) => [name, ...layersOf(bytes)]);
    return [this.sent.toString('latin1'), ...unpacked].join('\n');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

/** Bytes, and what is packed in them with gzip or zlib. */
function layersOf(bytes: Buffer): string[] {
  const layers = [bytes.toString('latin1')];
  for (const [start, unpack] of [
    ['\x1f\x8b\x08', gunzipSync],
    ['\x78\x01', inflateSync],
    ['\x78\x9c', inflateSync],
  ] as const) {
    const at = bytes.indexOf(start, 0, 'latin1');
    if (at < 0) continue;
    try {
      layers.push(...layersOf(unpack(bytes.subarray(at))));
    } catch {
      // Two bytes of voxels that look like the start of compressed data.
    }
  }
  return layers;
}
