import { createHash, type Hash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { Writable } from 'node:stream';
import { ServiceError } from '../../contract/index.js';
import { type DiskWatch, dropWritten, type SyncBehind } from '../submissions/index.js';

/** Bytes that may wait for a write: pieces that come meanwhile are written together. */
const gathered = 1 << 20;

/** A checksum that a client sends with a body. */
export interface Checksum {
  readonly algorithm: string;
  readonly digest: Buffer;
}

/** What one request needs to write an upload. */
export interface Writing {
  readonly checksum: Checksum | null;
  readonly disk: DiskWatch;
  readonly behind: SyncBehind;
}

export interface Appended {
  readonly file: string;
  readonly handle: FileHandle;
  readonly offset: number;
  /** Bytes that the file may have at most. */
  readonly length: number;
  /** Called with the number of bytes that the file has now. */
  readonly grew: (bytes: number) => void;
}

/** Appends one body to the file of an upload. */
export class Appender extends Writable {
  /** Bytes of the file that are written completely. */
  at: number;
  readonly #sum: Hash | null;
  #writing: Promise<void> = Promise.resolve();

  constructor(
    private readonly into: Appended,
    private readonly how: Writing,
  ) {
    super({ highWaterMark: gathered });
    this.at = into.offset;
    this.#sum = how.checksum && createHash(how.checksum.algorithm);
    // Whoever pipes into it is told; after that, nobody listens.
    this.on('error', () => {});
  }

  /** Resolves when nothing is being written any more; the rest of a body that broke off is written first. Never rejects. */
  async settled(): Promise<void> {
    if (!this.destroyed) await new Promise<void>((resolve) => this.once('close', resolve).end());
    await this.#writing.catch(() => {});
  }

  /** Whether the body has the checksum that came with it, or none came. */
  get isRight(): boolean {
    return this.#sum === null || this.#sum.digest().equals(this.how.checksum?.digest ?? Buffer.alloc(0));
  }

  override _write(piece: Buffer, _encoding: string, done: (cause?: Error) => void): void {
    this._writev([{ chunk: piece }], done);
  }

  override _writev(chunks: readonly { chunk: Buffer }[], done: (cause?: Error) => void): void {
    this.#writing = this.#append(chunks.map(({ chunk }) => chunk));
    this.#writing.then(() => done(), done);
  }

  async #append(pieces: readonly Buffer[]): Promise<void> {
    const { file, handle, length, grew } = this.into;
    const bytes = pieces.reduce((total, piece) => total + piece.length, 0);
    if (this.at + bytes > length) {
      throw new ServiceError(
        'uploadTooLarge',
        `More came than the ${length} bytes that the upload was to have`,
      );
    }
    const left = [...pieces];
    for (let written = 0; written < bytes; ) {
      const { bytesWritten } = await handle.writev(left, this.at + written);
      written += bytesWritten;
      if (written < bytes) dropWritten(left, bytesWritten);
    }
    for (const piece of pieces) this.#sum?.update(piece);
    this.at += bytes;
    grew(this.at);
    this.how.behind.wrote(file, bytes);
    await this.how.disk.wrote(bytes);
  }
}
