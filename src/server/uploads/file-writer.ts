import type { FileHandle } from 'node:fs/promises';
import { Writable } from 'node:stream';
import { ServiceError } from '../../contract/index.js';
import type { Reservation } from './disk-space.js';

/** Number of bytes that may wait for a write. Pieces that arrive during a write are written together by the next one. */
const maxQueued = 512 << 10;

interface FileWriterOptions {
  readonly handle: FileHandle;
  /** Position in the file of the first byte. */
  readonly offset: number;
  /** Maximum size of the file in bytes. */
  readonly maxLength: number;
  readonly space: Reservation;
  /** Called after each write with the bytes that were written. */
  readonly onWritten?: (data: Buffer) => void;
}

/** Writes the bytes of a request to a file as they arrive. Does not close the file. */
export class FileWriter extends Writable {
  /** Position up to which the file is completely written. */
  offset: number;
  #writing: Promise<void> = Promise.resolve();

  constructor(private readonly options: FileWriterOptions) {
    super({ highWaterMark: maxQueued });
    this.offset = options.offset;
    // Errors are reported to the writer of the stream; without a listener they would be uncaught.
    this.on('error', () => {});
  }

  /** Writes what is still waiting, even of a body that broke off. Resolves when no write is in progress. Never rejects. */
  async flushed(): Promise<void> {
    if (!this.destroyed) await new Promise<void>((resolve) => this.once('close', resolve).end());
    await this.#writing.catch(() => {});
  }

  override _writev(chunks: readonly { chunk: Buffer }[], done: (cause?: Error) => void): void {
    this.#writing = this.#append(chunks.map(({ chunk }) => chunk));
    this.#writing.then(() => done(), done);
  }

  /** Appends the pieces to the file. @throws ServiceError `uploadTooLarge` or `diskFull`; the system's error */
  async #append(pieces: readonly Buffer[]): Promise<void> {
    const { handle, maxLength, space, onWritten } = this.options;
    const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
    if (this.offset + length > maxLength) {
      throw new ServiceError('uploadTooLarge', `More than the announced ${maxLength} bytes arrived`);
    }
    await space.use(length);
    let { bytesWritten: written } = await handle.writev(pieces, this.offset);
    // A disk that is nearly full may accept only part of a write.
    for (const rest = Buffer.concat(written < length ? pieces : []); written < length; )
      written += (await handle.write(rest, written, length - written, this.offset + written)).bytesWritten;
    this.offset += length;
    for (const piece of pieces) onWritten?.(piece);
  }
}
