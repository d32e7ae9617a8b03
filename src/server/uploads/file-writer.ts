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

  override _write(data: Buffer, _encoding: string, done: (cause?: Error) => void): void {
    this.#writing = this.#append(data);
    this.#writing.then(() => done(), done);
  }

  override _writev(chunks: readonly { chunk: Buffer }[], done: (cause?: Error) => void): void {
    this._write(Buffer.concat(chunks.map(({ chunk }) => chunk)), '', done);
  }

  /** @throws ServiceError `uploadTooLarge` or `diskFull`; the system's error */
  async #append(data: Buffer): Promise<void> {
    const { handle, maxLength, space, onWritten } = this.options;
    if (this.offset + data.length > maxLength) {
      throw new ServiceError('uploadTooLarge', `More than the announced ${maxLength} bytes arrived`);
    }
    await space.use(data.length);
    for (let written = 0; written < data.length; ) {
      const left = data.length - written;
      written += (await handle.write(data, written, left, this.offset + written)).bytesWritten;
    }
    this.offset += data.length;
    onWritten?.(data);
  }
}
