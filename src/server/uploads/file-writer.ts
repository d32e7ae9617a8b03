import type { FileHandle } from 'node:fs/promises';
import { Writable } from 'node:stream';
import { ServiceError } from '../../contract/index.js';
import type { Reservation } from './disk-space.js';

/** Bytes that may wait for a write. Pieces that arrive during one are written together in the next. */
const maxQueued = 512 << 10;

interface FileWriterOptions {
  readonly handle: FileHandle;
  /** Where in the file the first byte goes. */
  readonly offset: number;
  /** Bytes that the file may have at most. */
  readonly maxLength: number;
  readonly space: Reservation;
  /** Called with the bytes of each write, after it. */
  readonly onWritten?: (data: Buffer) => void;
}

/** Writes the bytes of a request to a file as they arrive. Does not close the file. */
export class FileWriter extends Writable {
  /** Bytes of the file that are written completely. */
  offset: number;
  #writing: Promise<void> = Promise.resolve();

  constructor(private readonly options: FileWriterOptions) {
    super({ highWaterMark: maxQueued });
    this.offset = options.offset;
    // Errors are reported to whoever writes; without a listener they would be uncaught.
    this.on('error', () => {});
  }

  /** Writes what still waits, also of a body that broke off. Resolves when nothing is being written. Never rejects. */
  async flushed(): Promise<void> {
    if (!this.destroyed) await new Promise<void>((resolve) => this.once('close', resolve).end());
    await this.#writing.catch(() => {});
  }

  override _writev(chunks: readonly { chunk: Buffer }[], done: (cause?: Error) => void): void {
    this.#writing = this.#append(chunks.map(({ chunk }) => chunk));
    this.#writing.then(() => done(), done);
  }

  /** @throws ServiceError `uploadTooLarge` or `diskFull`; the system's error */
  async #append(pieces: readonly Buffer[]): Promise<void> {
    const { handle, maxLength, space, onWritten } = this.options;
    const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
    if (this.offset + length > maxLength) {
      throw new ServiceError('uploadTooLarge', `More than the announced ${maxLength} bytes arrived`);
    }
    await space.use(length);
    let { bytesWritten: written } = await handle.writev(pieces, this.offset);
    // A disk that is nearly full takes a part.
    for (const rest = Buffer.concat(written < length ? pieces : []); written < length; )
      written += (await handle.write(rest, written, length - written, this.offset + written)).bytesWritten;
    this.offset += length;
    for (const piece of pieces) onWritten?.(piece);
  }
}
