import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

/** The bytes that elements are read from. */
export interface ElementBytes {
  readonly size: number;
  /** The bytes from there on: fewer at the end. They are overwritten by the next call. */
  at(offset: number, length: number): Buffer;
}

/** Bytes that are read at once while elements follow each other, and behind a value that was skipped. */
const [following, skipped] = [32 * 1024, 4096];

/** A file of which only pieces are read. Blocks while one is read: the thread pool takes five times as long. */
export class FileBytes implements ElementBytes, Disposable {
  readonly size: number;
  readonly #descriptor: number;
  readonly #piece = Buffer.allocUnsafe(following);
  #start = 0;
  #end = 0;

  /** @throws the system's error */
  constructor(file: string) {
    this.#descriptor = openSync(file, 'r');
    this.size = fstatSync(this.#descriptor).size;
  }

  at(offset: number, length: number): Buffer {
    if (offset < this.#start || offset + length > this.#end) {
      const isNear = offset <= this.#end;
      const most = Math.max(length, isNear ? following : skipped);
      this.#start = offset;
      this.#end = offset + readSync(this.#descriptor, this.#piece, 0, Math.min(most, following), offset);
    }
    return this.#piece.subarray(offset - this.#start, Math.min(offset + length, this.#end) - this.#start);
  }

  [Symbol.dispose](): void {
    closeSync(this.#descriptor);
  }
}

export const bytesInMemory = (bytes: Buffer): ElementBytes => ({
  size: bytes.length,
  at: (offset, length) => bytes.subarray(offset, offset + length),
});
