import { deflateRawSync, inflateRawSync } from 'node:zlib';

/** Bytes of the directory that are compressed at once: little work at a time, and few pieces. */
const pieceSize = 128 * 1024;

/**
 * The central directory of a zip archive that is being written. It grows with every file and is written last, so it is
 * kept compressed in memory: about 30 bytes a file; archiver's own entries take 10 KB each.
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

  /** The directory's bytes, piece by piece. */
  *pieces(): Generator<Buffer> {
    for (const piece of this.#pieces) yield inflateRawSync(piece);
    if (this.#bytes > 0) yield Buffer.concat(this.#headers);
  }
}
