import type { FileHandle } from 'node:fs/promises';
import { errorCode } from '../files/error-code.js';

/** Most bytes read from a file at once. */
const readSize = 1024 * 1024;

/** Why the archive does not hold the file as it was when it was opened, as words that follow its name; null if it does. */
export type Flaw = string | null;

/** Reads a small file: as many bytes as it had when it was opened, or fewer if it has become shorter. */
export async function readSmall(file: FileHandle, size: number): Promise<{ bytes: Buffer; flaw: Flaw }> {
  // One byte more than expected: reading it shows that the file has grown.
  const buffer = Buffer.allocUnsafe(size + 1);
  let filled = 0;
  while (filled < buffer.length) {
    const { bytesRead } = await file.read(buffer, filled, buffer.length - filled, filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return { bytes: buffer.subarray(0, Math.min(filled, size)), flaw: sizeFlaw(size, filled) };
}

const sizeFlaw = (size: number, found: number): Flaw =>
  found === size
    ? null
    : `${found < size ? 'became shorter' : 'grew'} while it was packed, and was cut there`;

/**
 * The bytes of a large file, as many as it had when it was opened. Never throws: the bytes read so far are in the archive
 * already, so at a read error the content ends and `flaw` says so.
 */
export class FileContent {
  flaw: Flaw = null;

  constructor(
    private readonly file: FileHandle,
    private readonly size: number,
    /** Called with the bytes of each piece; the next is read when it resolves. */
    private readonly onPiece: (bytes: number) => Promise<void> | void,
  ) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    let done = 0;
    while (done < this.size) {
      const piece = await this.#read(done);
      if (piece === null) return;
      done += piece.length;
      yield piece;
      await this.onPiece(piece.length);
    }
    const now = await this.file.stat().catch(() => null);
    this.flaw = sizeFlaw(this.size, Math.max(this.size, now?.size ?? 0));
  }

  async #read(position: number): Promise<Buffer | null> {
    const wanted = Math.min(readSize, this.size - position);
    try {
      const { bytesRead, buffer } = await this.file.read(Buffer.allocUnsafe(wanted), 0, wanted, position);
      if (bytesRead > 0) return buffer.subarray(0, bytesRead);
      this.flaw = sizeFlaw(this.size, position);
    } catch (cause) {
      this.flaw = `could be read only as far as byte ${position} (${errorCode(cause)}), and was cut there`;
    }
    return null;
  }
}
