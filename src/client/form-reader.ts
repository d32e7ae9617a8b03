import { closeSync, openSync, read as readCallback, readSync } from 'node:fs';
import { promisify } from 'node:util';
import { exitCodes } from '../contract/errors.js';
import { ClientError } from './errors.js';

const read = promisify(readCallback);

/** A file of known size. */
export interface SizedFile {
  readonly path: string;
  /** Bytes. */
  readonly size: number;
}

/** What follows what in a body: bytes as they are, or those of a file. */
export type Segment = Buffer | SizedFile;

/** Bytes of a file that is read in passing: two trips to the thread pool would take longer than the reading. */
const smallSize = 512 * 1024;

/** One open file, from which exactly as many bytes are read as were announced. */
class OpenFile {
  readonly #descriptor: number;
  #done = 0;

  constructor(readonly file: SizedFile) {
    this.#descriptor = openSync(file.path, 'r');
  }

  async readInto(room: Buffer): Promise<number> {
    const length = Math.min(room.length, this.file.size - this.#done);
    const count =
      this.file.size <= smallSize
        ? readSync(this.#descriptor, room, 0, length, this.#done)
        : (await read(this.#descriptor, room, 0, length, this.#done)).bytesRead;
    if (count === 0) {
      throw new ClientError(`'${this.file.path}' changed while it was sent; send it again`, exitCodes.failed);
    }
    this.#done += count;
    return count;
  }

  get isRead(): boolean {
    return this.#done === this.file.size;
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}

/** Reads segments one after the other, many small ones or a part of a large one at once. One file is open at a time. */
class FormReader {
  readonly #segments: Iterator<Segment>;
  #bytes: Buffer = Buffer.alloc(0);
  #file: OpenFile | null = null;

  constructor(segments: Iterable<Segment>) {
    this.#segments = segments[Symbol.iterator]();
  }

  /** Fills a buffer. Returns how far: less than all of it at the end only. */
  async fill(buffer: Buffer): Promise<number> {
    let filled = 0;
    while (filled < buffer.length) {
      if (this.#file) {
        filled += await this.#file.readInto(buffer.subarray(filled));
        if (this.#file.isRead) this.close();
      } else if (this.#bytes.length > 0) {
        const copied = this.#bytes.copy(buffer, filled);
        this.#bytes = this.#bytes.subarray(copied);
        filled += copied;
      } else if (!this.#next()) break;
    }
    return filled;
  }

  close(): void {
    this.#file?.close();
    this.#file = null;
  }

  #next(): boolean {
    const { done, value } = this.#segments.next();
    if (done) return false;
    if (Buffer.isBuffer(value)) this.#bytes = value;
    else if (value.size > 0) this.#file = new OpenFile(value);
    return true;
  }
}

/**
 * The bytes of segments in pieces of one size, the last one excepted. Two buffers take turns: one is read into while
 * the other is sent, so a piece holds its bytes until the next but one is asked for, and no longer.
 */
export async function* readForm(segments: Iterable<Segment>, pieceSize: number): AsyncGenerator<Buffer> {
  const reader = new FormReader(segments);
  let buffer = Buffer.allocUnsafe(pieceSize);
  let other = Buffer.allocUnsafe(pieceSize);
  const startFilling = () => {
    const filling = reader.fill(buffer);
    // Its failure is met when the piece is asked for, which may be later.
    filling.catch(() => {});
    return filling;
  };
  let filling = startFilling();
  try {
    for (;;) {
      const piece = buffer.subarray(0, await filling);
      if (piece.length === 0) return;
      [buffer, other] = [other, buffer];
      filling = startFilling();
      yield piece;
    }
  } finally {
    await filling.catch(() => {});
    reader.close();
  }
}
