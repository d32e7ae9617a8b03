import { deflateRawSync, inflateRawSync } from 'node:zlib';

/** Bytes of the directory that are compressed together: a moment's work, and few pieces. */
const pieceSize = 128 * 1024;

/**
 * The directory at the end of a zip archive, while the archive is written. It grows with every file and is needed
 * last, so it is kept compressed: some 30 bytes a file, where the library's own record of it takes 10 KB.
 */
export class CentralDirectory {
  /** Entries so far. */
  length = 0;
  readonly #pieces: Buffer[] = [];
  #headers: Buffer[] = [];
  #bytes = 0;

  /** Adds one entry's header. */
  add(header: Buffer): void {
    this.length += 1;
    this.#headers.push(header);
    this.#bytes += header.length;
    if (this.#bytes < pieceSize) return;
    this.#pieces.push(deflateRawSync(Buffer.concat(this.#headers), { level: 1 }));
    this.#headers = [];
    this.#bytes = 0;
  }

  /** Its bytes, piece by piece. */
  *pieces(): Generator<Buffer> {
    for (const piece of this.#pieces) yield inflateRawSync(piece);
    if (this.#bytes > 0) yield Buffer.concat(this.#headers);
  }
}
