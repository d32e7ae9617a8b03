import { type FileHandle, open } from 'node:fs/promises';
import { Readable } from 'node:stream';

/** Bytes read at once where a stream goes on for long. */
const chunkSize = 64 * 1024;

/**
 * An archive's bytes as unzipper asks for them: every stream reads through one open file, so that none can keep a
 * descriptor, and a file that is replaced meanwhile stays the one that was looked at.
 */
export class ArchiveSource implements AsyncDisposable {
  /** Why the disk did not give what was asked for; unzipper hears of it as an end that came too soon. */
  failure: unknown;

  private constructor(readonly file: FileHandle) {}

  static async open(archive: string): Promise<ArchiveSource> {
    return new ArchiveSource(await open(archive));
  }

  async size(): Promise<number> {
    return (await this.file.stat()).size;
  }

  /** Fills a buffer from this place on, as far as the file goes. */
  async read(buffer: Buffer, position: number): Promise<Buffer> {
    let filled = 0;
    while (filled < buffer.length) {
      const { bytesRead } = await this.file.read(buffer, filled, buffer.length - filled, position + filled);
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
    return buffer.subarray(0, filled);
  }

  /** The bytes from this place on; none for a place that no file has, as a damaged directory may name it. */
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
    try {
      for (let done = 0; done < length; ) {
        const chunk = Buffer.allocUnsafe(Math.min(chunkSize, length - done));
        const { bytesRead } = await this.file.read(chunk, 0, chunk.length, position + done);
        if (bytesRead === 0) return;
        done += bytesRead;
        yield chunk.subarray(0, bytesRead);
      }
    } catch (cause) {
      this.failure ??= cause;
    }
  }
}
