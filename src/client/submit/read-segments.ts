import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
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

/**
 * What each file was like when it was first opened, by its path: a body that is sent again must be the same one, since the
 * server may have accepted the first.
 */
export type SeenFiles = Map<string, string>;

/** A part of a body: bytes, or the content of a file. */
export type Segment = Buffer | SizedFile;

/**
 * One open file, from which exactly the announced number of bytes is read. Reads are synchronous: the system reads ahead,
 * and two trips to the thread pool take longer than copying what it has read.
 */
class OpenFile {
  readonly #descriptor: number;
  readonly #state: string;
  #done = 0;

  /** @throws ClientError naming the file, if it has another size or is another than before */
  constructor(
    readonly file: SizedFile,
    seen: SeenFiles,
  ) {
    this.#descriptor = this.#reading(() => openSync(file.path, 'r'));
    try {
      const { size, state } = this.#look();
      if (size !== file.size || state !== (seen.get(file.path) ?? state)) throw this.#changed();
      seen.set(file.path, state);
      this.#state = state;
    } catch (error) {
      this.close();
      throw error;
    }
  }

  readInto(room: Buffer): number {
    const length = Math.min(room.length, this.file.size - this.#done);
    const count = this.#reading(() => readSync(this.#descriptor, room, 0, length, this.#done));
    if (count === 0) throw this.#changed();
    this.#done += count;
    // What was sent may be a part of what it was and a part of what it is.
    if (this.isRead && this.#look().state !== this.#state) throw this.#changed();
    return count;
  }

  get isRead(): boolean {
    return this.#done === this.file.size;
  }

  close(): void {
    closeSync(this.#descriptor);
  }

  /** What the file is like now. */
  #look(): { readonly size: number; readonly state: string } {
    const { size, mtimeMs, ino, dev } = this.#reading(() => fstatSync(this.#descriptor));
    return { size, state: [size, mtimeMs, ino, dev].join() };
  }

  #changed(): ClientError {
    return new ClientError(
      `${quotePath(this.file.path)} changed while it was sent; send it again`,
      exitCodes.failed,
    );
  }

  /** Turns a read error into a ClientError, so that it is not mistaken for a broken connection, which would be retried. */
  #reading<T>(read: () => T): T {
    try {
      return read();
    } catch (cause) {
      const problem = `${quotePath(this.file.path)} cannot be read: ${faultWithoutPath(cause)}`;
      throw new ClientError(problem, exitCodes.failed, {}, { cause });
    }
  }
}

/** Reads segments one after the other: many small ones, or a part of a large one, at once. One file is open at a time. */
class SegmentReader {
  readonly #segments: Iterator<Segment>;
  #bytes: Buffer = Buffer.alloc(0);
  #file: OpenFile | null = null;

  constructor(
    segments: Iterable<Segment>,
    private readonly seen: SeenFiles,
  ) {
    this.#segments = segments[Symbol.iterator]();
  }

  /** Fills a buffer. Returns the number of bytes, which is less than the buffer's length only at the end. */
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
    else if (value.size > 0) this.#file = new OpenFile(value, this.seen);
    return true;
  }
}

/**
 * The bytes of segments in pieces of one size; the last piece may be shorter. All pieces share one buffer: a piece is valid
 * only until the next one is requested.
 * @param seen of the readings before this one, whose files must not have changed since
 */
export function* readSegments(
  segments: Iterable<Segment>,
  pieceSize: number,
  seen: SeenFiles = new Map(),
): Generator<Buffer> {
  const reader = new SegmentReader(segments, seen);
  const buffer = Buffer.allocUnsafe(pieceSize);
  try {
    for (let filled = reader.fill(buffer); filled > 0; filled = reader.fill(buffer)) {
      yield buffer.subarray(0, filled);
    }
  } finally {
    reader.close();
  }
}
