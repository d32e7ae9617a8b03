import { close, closeSync, openSync, writev as writevCallback } from 'node:fs';
import { Writable } from 'node:stream';
import { promisify } from 'node:util';
import type { UploadQuota } from './quota.js';

/** Bytes gathered before they are written: formidable hands over 64 KiB at a time and waits for each. */
const gathered = 1 << 20;

const writev = promisify(writevCallback);

/** Writes one uploaded file, gathering small pieces into large writes, within a quota that is counted here. */
export class UploadSink extends Writable {
  #file: number | null = null;
  #writing: Promise<void> | null = null;
  #pieces: Buffer[] = [];
  #length = 0;
  #size = 0;

  constructor(
    private readonly path: string,
    /** What the client calls the file, for the errors. */
    private readonly label: string,
    private readonly quota: UploadQuota,
  ) {
    super({ highWaterMark: gathered });
  }

  override _construct(done: (error?: Error | null) => void): void {
    // Here and now: a trip to the thread pool and back takes three times as long as opening a file does, and an upload
    // may have thousands of small ones.
    try {
      this.#file = openSync(this.path, 'wx', 0o600);
      done();
    } catch (cause) {
      done(cause as Error);
    }
  }

  override _write(piece: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#size += piece.length;
    const excess = this.quota.take(piece.length, this.#size, this.label);
    if (excess) {
      done(excess);
      return;
    }
    // The parser reuses nothing of its buffers, so they can be kept as they are.
    this.#pieces.push(piece);
    this.#length += piece.length;
    if (this.#length < gathered) done();
    else this.#flush(done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#flush(done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#pieces = [];
    const close = () => this.#close(error, done);
    // The descriptor may be another file's as soon as it is closed.
    if (this.#writing) this.#writing.then(close, close);
    else close();
  }

  #close(error: Error | null, done: (error?: Error | null) => void): void {
    if (this.#file === null) {
      done(error);
    } else if (this.#size > gathered) {
      // On a network file system closing writes what is left, which may be much.
      close(this.#file, (cause) => done(error ?? cause));
    } else {
      // As with opening.
      try {
        closeSync(this.#file);
        done(error);
      } catch (cause) {
        done(error ?? (cause as Error));
      }
    }
  }

  #flush(done: (error?: Error | null) => void): void {
    this.#writing = this.#writePieces();
    this.#writing.then(
      () => {
        this.#writing = null;
        done();
      },
      (cause) => {
        this.#writing = null;
        done(cause);
      },
    );
  }

  async #writePieces(): Promise<void> {
    const pieces = this.#pieces;
    let left = this.#length;
    this.#pieces = [];
    this.#length = 0;
    while (left > 0 && this.#file !== null) {
      const { bytesWritten } = await writev(this.#file, pieces);
      left -= bytesWritten;
      if (left > 0) dropWritten(pieces, bytesWritten);
    }
  }
}

/** Takes from the front what a short write has written. */
function dropWritten(pieces: Buffer[], written: number): void {
  let left = written;
  while (pieces[0] && left >= pieces[0].length) left -= pieces.shift()?.length ?? 0;
  if (pieces[0]) pieces[0] = pieces[0].subarray(left);
}
