import type { Socket } from 'node:net';

/**
 * What a keeper, a runner and the server say to each other over the keeper's socket: frames of a letter, a length and that
 * many bytes.
 */
export const frameKinds = {
  /** Runner: a job, as JSON. */
  job: 'J',
  /** Runner: end the job. */
  stop: 'S',
  /** Server: tell me of each change of your state. */
  attach: 'C',
  /** Server: leave, or when the job has ended if there is one. */
  leave: 'L',
  /** Keeper to runner: it has the job, and the worker's process, as JSON. */
  accepted: 'A',
  /** Keeper to runner: it does not take the job. */
  refused: 'N',
  /** Keeper to runner: bytes of the app's output. */
  output: 'O',
  /** Keeper to runner: how the job ended, as JSON. */
  end: 'X',
  /** Keeper to server: its state, as JSON. */
  state: 'T',
} as const;
export type FrameKind = (typeof frameKinds)[keyof typeof frameKinds];

export interface Frame {
  readonly kind: string;
  readonly payload: Buffer;
}

const headBytes = 5;
/** Most bytes of a frame: the longest argument list that Linux takes, and room to spare. */
const longest = 64 << 20;

/** Sends a frame. @returns false if the other side is slow, and more should wait for `drain` */
export function sendFrame(socket: Socket, kind: FrameKind, payload: Buffer | string = ''): boolean {
  if (socket.destroyed || socket.writableEnded) return true;
  const bytes = Buffer.from(payload);
  const head = Buffer.alloc(headBytes);
  head.write(kind, 'latin1');
  head.writeUInt32BE(bytes.length, 1);
  return socket.write(Buffer.concat([head, bytes]));
}

/** Resolves when a socket is closed, in whatever way: `once` of `node:events` would reject where it fails first. */
export const isClosed = (socket: Socket): Promise<void> =>
  new Promise((resolve) => {
    if (socket.closed) resolve();
    else socket.once('close', () => resolve());
  });

/** Cuts what arrives into frames. */
export class FrameReader {
  #pieces: Buffer[] = [];
  #length = 0;
  /** Bytes that the next frame needs, as far as that is known. */
  #wanted = headBytes;

  /** @throws Error for a frame that is longer than any of ours */
  push(chunk: Buffer): Frame[] {
    this.#pieces.push(chunk);
    this.#length += chunk.length;
    if (this.#length < this.#wanted) return [];
    const frames: Frame[] = [];
    let rest = Buffer.concat(this.#pieces);
    this.#wanted = headBytes;
    while (rest.length >= headBytes) {
      const length = rest.readUInt32BE(1);
      if (length > longest) throw new Error('A frame is too long');
      this.#wanted = headBytes + length;
      if (rest.length < this.#wanted) break;
      frames.push({ kind: rest.toString('latin1', 0, 1), payload: rest.subarray(headBytes, this.#wanted) });
      rest = rest.subarray(this.#wanted);
      this.#wanted = headBytes;
    }
    this.#pieces = [rest];
    this.#length = rest.length;
    return frames;
  }
}
