import { randomBytes } from 'node:crypto';
import { mediaTypes, partSizeHeader } from '../../contract/index.js';
import { contentOf, type FilePart, piecesOf, type SeenFiles, type Segment, sizeOf } from './segments.js';

/** 32 random hexadecimal digits. */
export const uniqueText = (): string => randomBytes(16).toString('hex');

const lineEnd = Buffer.from('\r\n');

/** Quotes and line breaks as HTML forms write them; everything else stays UTF-8. */
const quoted = (text: string): string =>
  `"${text.replaceAll('"', '%22').replaceAll('\r', '%0D').replaceAll('\n', '%0A')}"`;

/**
 * A `multipart/form-data` body of known length that reads its files only while it is sent, so that memory stays
 * the same for any size. It can be sent again: every stream starts from the beginning, and fails if a file has changed.
 *
 * undici's `FormData` with `fs.openAsBlob` does the same in pieces of 64 KiB: to read 1 GiB takes it 1.3 s and 110 MiB
 * of memory (this: 0.3 s, 51 MiB), 2,000 files 2.4 s (0.2 s). Nor does it report its progress.
 */
export class Multipart {
  readonly contentType: string;
  /** Bytes of the whole body. */
  readonly length: number;
  readonly #segments: readonly Segment[];
  readonly #seen: SeenFiles = new Map();

  constructor(fields: Readonly<Record<string, string>>, files: readonly FilePart[]) {
    const boundary = `remote-app-${uniqueText()}`;
    this.contentType = `${mediaTypes.form}; boundary=${boundary}`;
    const head = (disposition: string, more = '') =>
      `--${boundary}\r\nContent-Disposition: form-data; ${disposition}\r\n${more}\r\n`;
    this.#segments = [
      ...Object.entries(fields).map(([name, value]) =>
        Buffer.from(`${head(`name=${quoted(name)}`)}${value}\r\n`),
      ),
      ...files.flatMap((part) => [
        Buffer.from(
          head(
            `name=${quoted(part.field)}; filename=${quoted(part.filename)}`,
            `Content-Type: application/octet-stream\r\n${partSizeHeader}: ${part.size}\r\n`,
          ),
        ),
        ...contentOf(part),
        lineEnd,
      ]),
      Buffer.from(`--${boundary}--\r\n`),
    ];
    this.length = this.#segments.reduce((sum, segment) => sum + sizeOf(segment), 0);
    for (const { path, state } of files) if (state !== undefined) this.#seen.set(path, state);
  }

  /**
   * The body from the beginning.
   * @param onBytes called with the number of bytes produced so far
   * @param ready awaited after the first piece; only a few bytes are sent before it resolves
   */
  async *stream(
    onBytes: (sent: number) => void,
    ready: () => Promise<void> = async () => {},
  ): AsyncGenerator<Buffer> {
    let sent = 0;
    // The first piece is a field, the head of a file, or the end of the body, but never file content.
    for (const piece of piecesOf(this.#segments, this.#seen)) {
      yield piece;
      if (sent === 0) await ready();
      sent += piece.length;
      onBytes(sent);
    }
  }
}
