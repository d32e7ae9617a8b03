import { closeSync, fstatSync, openSync, readSync, type Stats } from 'node:fs';
import type { PackedPiece } from '../../archive/index.js';
import { exitCodes, quotePath } from '../../contract/index.js';
import { faultWithoutPath } from '../../files/index.js';
import { ClientError } from '../errors.js';

/** A file of known size. */
interface SizedFile {
  readonly path: string;
  /** Bytes. */
  readonly size: number;
}

/** A range of the bytes of a file, without the byte at `end`. */
interface FileRange {
  readonly path: string;
  readonly start: number;
  readonly end: number;
  /** Bytes that the file has to have; at least the range where it is undefined. */
  readonly whole?: number;
}

/**
 * What each file was like when it was first opened, by path: a repeated body must be identical, since the server may have
 * accepted the first.
 */
export type SeenFiles = Map<string, string>;

/** A fingerprint of a file: its size, time, inode and device. It changes when the file does. */
export const stateOf = ({ size, mtimeMs, ino, dev }: Stats): string => [size, mtimeMs, ino, dev].join();

/** The error for a file that is not any more what it was when it began to be sent. */
export const changed = (file: string): ClientError =>
  new ClientError(`${quotePath(file)} changed while it was sent; send it again`, exitCodes.failed);

/** The error for a file that cannot be read while it is sent. */
export const unreadable = (file: string, cause: unknown): ClientError =>
  new ClientError(
    `${quotePath(file)} cannot be read: ${faultWithoutPath(cause)}`,
    exitCodes.failed,
    {},
    { cause },
  );

/** A part of a body: bytes, or those of a file. */
export type Segment = Buffer | FileRange;

/**
 * One open file, from which exactly the announced number of bytes is read. Reads are synchronous: the system reads ahead,
 * and two trips to the thread pool take longer than copying what it has read.
 */
class OpenFile implements Disposable {
  readonly #descriptor: number;
  readonly #state: string;
  #at: number;

  /** @throws ClientError naming the file, if it has another size or is another than before */
  constructor(
    readonly file: FileRange,
    seen: SeenFiles,
  ) {
    this.#at = file.start;
    this.#descriptor = this.#reading(() => openSync(file.path, 'r'));
    try {
      const { size, state } = this.#look();
      const { path, end, whole = Math.max(size, end) } = file;
      if (size !== whole || state !== (seen.get(path) ?? state)) throw this.#changed();
      seen.set(file.path, state);
      this.#state = state;
    } catch (error) {
      this[Symbol.dispose]();
      throw error;
    }
  }

  readInto(room: Buffer): number {
    const length = Math.min(room.length, this.file.end - this.#at);
    const count = this.#reading(() => readSync(this.#descriptor, room, 0, length, this.#at));
    if (count === 0) throw this.#changed();
    this.#at += count;
    // The data already sent may be a mix of the old content and the new.
    if (this.isRead && this.#look().state !== this.#state) throw this.#changed();
    return count;
  }

  get isRead(): boolean {
    return this.#at === this.file.end;
  }

  [Symbol.dispose](): void {
    closeSync(this.#descriptor);
  }

  /** The file's current state. */
  #look(): { readonly size: number; readonly state: string } {
    const stats = this.#reading(() => fstatSync(this.#descriptor));
    return { size: stats.size, state: stateOf(stats) };
  }

  #changed(): ClientError {
    return changed(this.file.path);
  }

  /** Turns a read error into a ClientError, so that it is not mistaken for a broken connection and retried. */
  #reading<T>(read: () => T): T {
    try {
      return read();
    } catch (cause) {
      throw unreadable(this.file.path, cause);
    }
  }
}

/** Bytes in memory, read as those of a file are. */
class Bytes implements Disposable {
  #left: Buffer;

  constructor(bytes: Buffer) {
    this.#left = bytes;
  }

  readInto(room: Buffer): number {
    const copied = this.#left.copy(room);
    this.#left = this.#left.subarray(copied);
    return copied;
  }

  get isRead(): boolean {
    return this.#left.length === 0;
  }

  [Symbol.dispose](): void {}
}

/** One file that is sent. */
export interface FilePart extends SizedFile {
  readonly field: string;
  /** The name as the server sees it: the last part of a path. */
  readonly filename: string;
  /** What is sent in place of the file's content, of `size` bytes together, and the state of the file that they were chosen by. */
  readonly pieces?: readonly PackedPiece[];
  readonly state?: string;
}

/** The content of a part. */
export const contentOf = ({ path, size, pieces }: FilePart): Segment[] =>
  pieces
    ? pieces.map((each) =>
        each instanceof Uint8Array
          ? Buffer.from(each.buffer, each.byteOffset, each.length)
          : { path, ...each },
      )
    : [{ path, start: 0, end: size, whole: size }];

/**
 * Bytes handed out at once. Each piece costs a twentieth of a millisecond, whatever its size: with pieces a quarter as large,
 * sending takes a third more processor time.
 */
export const pieceSize = 1024 * 1024;

export const sizeOf = (segment: Segment): number =>
  Buffer.isBuffer(segment) ? segment.length : segment.end - segment.start;

/** Segments without so many bytes at their beginning. */
export function behind(segments: readonly Segment[], bytes: number): Segment[] {
  let left = bytes;
  return segments.flatMap((segment) => {
    const cut = Math.min(left, sizeOf(segment));
    left -= cut;
    if (cut === sizeOf(segment)) return [];
    return [Buffer.isBuffer(segment) ? segment.subarray(cut) : { ...segment, start: segment.start + cut }];
  });
}

/**
 * The bytes of segments. All pieces share one buffer: the bytes of one are gone when the next is asked for.
 * @param seen what the files were like before
 * @throws ClientError for a file that has changed since, or cannot be read
 */
export function* piecesOf(segments: Iterable<Segment>, size: number, seen: SeenFiles): Generator<Buffer> {
  const buffer = Buffer.allocUnsafe(size);
  let filled = 0;
  for (const segment of segments) {
    if (sizeOf(segment) === 0) continue;
    using source = Buffer.isBuffer(segment) ? new Bytes(segment) : new OpenFile(segment, seen);
    while (!source.isRead) {
      filled += source.readInto(buffer.subarray(filled));
      if (filled < size) continue;
      yield buffer;
      filled = 0;
    }
  }
  if (filled > 0) yield buffer.subarray(0, filled);
}
