import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import { exitCodes } from '../contract/errors.js';
import { ClientError } from './errors.js';

/** One file part of a form. */
export interface FilePart {
  readonly field: string;
  /** As the server sees it: the last part of a path. */
  readonly filename: string;
  readonly path: string;
  /** Bytes. */
  readonly size: number;
}

const readSize = 256 * 1024;

/** Quotes and line breaks as HTML forms write them; everything else is UTF-8 as it stands. */
const quoted = (text: string): string =>
  `"${text.replaceAll('"', '%22').replaceAll('\r', '%0D').replaceAll('\n', '%0A')}"`;

/**
 * A `multipart/form-data` body of known length that reads its files only while it is sent, so that memory stays
 * the same for any size. It can be sent again: every stream starts from the beginning.
 */
export class Multipart {
  readonly contentType: string;
  /** Bytes of the whole body. */
  readonly length: number;
  readonly #heads: readonly { head: Buffer; part: FilePart | null }[];
  readonly #tail: Buffer;

  constructor(fields: Readonly<Record<string, string>>, files: readonly FilePart[]) {
    const boundary = `remote-app-${randomBytes(16).toString('hex')}`;
    this.contentType = `multipart/form-data; boundary=${boundary}`;
    const head = (disposition: string, more = '') =>
      `--${boundary}\r\nContent-Disposition: form-data; ${disposition}\r\n${more}\r\n`;
    this.#heads = [
      ...Object.entries(fields).map(([name, value]) => ({
        head: Buffer.from(`${head(`name=${quoted(name)}`)}${value}\r\n`),
        part: null,
      })),
      ...files.map((part) => ({
        head: Buffer.from(
          head(
            `name=${quoted(part.field)}; filename=${quoted(part.filename)}`,
            'Content-Type: application/octet-stream\r\n',
          ),
        ),
        part,
      })),
    ];
    this.#tail = Buffer.from(`--${boundary}--\r\n`);
    this.length = this.#heads.reduce(
      (sum, { head: bytes, part }) => sum + bytes.length + (part ? part.size + 2 : 0),
      this.#tail.length,
    );
  }

  /**
   * The body from its beginning.
   * @param onBytes called with the bytes handed out so far
   * @param ready awaited after the first piece: what is sent before it resolves is a few bytes
   */
  stream(onBytes: (sent: number) => void, ready: () => Promise<void> = async () => {}): Readable {
    const pieces = this.#pieces();
    const counted = async function* () {
      let sent = 0;
      for await (const piece of pieces) {
        yield piece;
        if (sent === 0) await ready();
        sent += piece.length;
        onBytes(sent);
      }
    };
    return Readable.from(counted(), { objectMode: false });
  }

  async *#pieces(): AsyncGenerator<Buffer> {
    for (const { head, part } of this.#heads) {
      yield head;
      if (part) {
        yield* fileBytes(part);
        yield Buffer.from('\r\n');
      }
    }
    yield this.#tail;
  }
}

/** A file's bytes, exactly as many as were announced. */
async function* fileBytes(part: FilePart): AsyncGenerator<Buffer> {
  if (part.size === 0) return;
  let read = 0;
  const source = createReadStream(part.path, { highWaterMark: readSize, end: part.size - 1 });
  for await (const chunk of source as AsyncIterable<Buffer>) {
    read += chunk.length;
    yield chunk;
  }
  if (read !== part.size) {
    throw new ClientError(`'${part.path}' changed while it was sent; send it again`, exitCodes.failed);
  }
}
