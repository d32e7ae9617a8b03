import { type FileHandle, open } from 'node:fs/promises';
import { Writable } from 'node:stream';
import type { UploadQuota } from './quota.js';

/** Bytes gathered before they are written: formidable hands over 64 KiB at a time and waits for each. */
const gathered = 1 << 20;

/** Writes one uploaded file, gathering small pieces into large writes, within a quota that is counted here. */
export class UploadSink extends Writable {
  #file: FileHandle | null = null;
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
    open(this.path, 'wx', 0o600).then((file) => {
      this.#file = file;
      done();
    }, done);
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
    else this.#flush().then(() => done(), done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#flush().then(() => done(), done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#pieces = [];
    const close = this.#file?.close() ?? Promise.resolve();
    close.then(
      () => done(error),
      (cause) => done(error ?? cause),
    );
  }

  async #flush(): Promise<void> {
    const pieces = this.#pieces;
    let left = this.#length;
    this.#pieces = [];
    this.#length = 0;
    while (left > 0 && this.#file) {
      const { bytesWritten } = await this.#file.writev(pieces);
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
