import { type FileHandle, open } from 'node:fs/promises';
import { Readable } from 'node:stream';

/** Bytes read at once in a long stream. */
const chunkSize = 64 * 1024;

/**
 * The bytes of an archive, as unzipper asks for them. All streams read through one open file, so that no stream can leak
 * a descriptor, and replacing the file meanwhile changes nothing.
 */
export class ArchiveSource implements AsyncDisposable {
  /** The read error of the disk, if there was one; unzipper only sees that the file ended too soon. */
  failure: unknown;

  private constructor(readonly file: FileHandle) {}

  static async open(archive: string): Promise<ArchiveSource> {
    return new ArchiveSource(await open(archive));
  }

  async size(): Promise<number> {
    return (await this.file.stat()).size;
  }

  /** Fills a buffer with the bytes from this position on, up to the end of the file. */
  async read(buffer: Buffer, position: number): Promise<Buffer> {
    let filled = 0;
    while (filled < buffer.length) {
      const { bytesRead } = await this.file.read(buffer, filled, buffer.length - filled, position + filled);
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
    return buffer.subarray(0, filled);
  }

  /** The bytes from this position on; none for an impossible position, which a damaged directory may name. */
  stream(position: number, length = Number.MAX_SAFE_INTEGER): Readable {
    const isPlace = Number.isSafeInteger(position) && position >= 0;
    return Readable.from(isPlace ? this.#chunks(position, length) : [], {
      objectMode: false,
      highWaterMark: chunkSize,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.file.close();
  }

  async *#chunks(position: number, length: number): AsyncGenerator<Buffer> {
    for (let done = 0; done < length; ) {
      const chunk = Buffer.allocUnsafe(Math.min(chunkSize, length - done));
      let count: number;
      // Only around the read: an error of what takes the bytes is thrown where they are handed out.
      try {
        count = (await this.file.read(chunk, 0, chunk.length, position + done)).bytesRead;
      } catch (cause) {
        this.failure ??= cause;
        return;
      }
      if (count === 0) return;
      done += count;
      yield chunk.subarray(0, count);
    }
  }
}
