import { closeSync, openSync, readSync } from 'node:fs';
import { exitCodes } from '../../contract/errors.js';
import { quotePath } from '../../contract/quote.js';
import { faultWithoutPath } from '../../files/error-code.js';
import { ClientError } from '../errors.js';

/** A file of known size. */
export interface SizedFile {
  readonly path: string;
  /** Bytes. */
  readonly size: number;
}

/** What follows what in a body: bytes as they are, or those of a file. */
export type Segment = Buffer | SizedFile;

/**
 * One open file, from which exactly as many bytes are read as were announced. It is read here and now: the system reads
 * ahead, and two trips to the thread pool take longer than fetching what is there.
 */
class OpenFile {
  readonly #descriptor: number;
  #done = 0;

  constructor(readonly file: SizedFile) {
    this.#descriptor = this.#reading(() => openSync(file.path, 'r'));
  }

  readInto(room: Buffer): number {
    const length = Math.min(room.length, this.file.size - this.#done);
    const count = this.#reading(() => readSync(this.#descriptor, room, 0, length, this.#done));
    if (count === 0) {
      throw new ClientError(
        `${quotePath(this.file.path)} changed while it was sent; send it again`,
        exitCodes.failed,
      );
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

  /** A file that cannot be read is no connection that broke: it is said as what it is, and nothing is sent again. */
  #reading(read: () => number): number {
    try {
      return read();
    } catch (cause) {
      const problem = `${quotePath(this.file.path)} cannot be read: ${faultWithoutPath(cause)}`;
      throw new ClientError(problem, exitCodes.failed, {}, { cause });
    }
  }
}

/** Reads segments one after the other, many small ones or a part of a large one at once. One file is open at a time. */
class SegmentReader {
  readonly #segments: Iterator<Segment>;
  #bytes: Buffer = Buffer.alloc(0);
  #file: OpenFile | null = null;

  constructor(segments: Iterable<Segment>) {
    this.#segments = segments[Symbol.iterator]();
  }

  /** Fills a buffer. Returns how far: less than all of it at the end only. */
  fill(buffer: Buffer): number {
    let filled = 0;
    while (filled < buffer.length) {
      if (this.#file) {
        filled += this.#file.readInto(buffer.subarray(filled));
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
 * The bytes of segments in pieces of one size, the last one excepted. There is one buffer: a piece holds its bytes until
 * the next is asked for, and no longer.
 */
export function* readSegments(segments: Iterable<Segment>, pieceSize: number): Generator<Buffer> {
  const reader = new SegmentReader(segments);
  const buffer = Buffer.allocUnsafe(pieceSize);
  try {
    for (let filled = reader.fill(buffer); filled > 0; filled = reader.fill(buffer)) {
      yield buffer.subarray(0, filled);
    }
  } finally {
    reader.close();
  }
}
