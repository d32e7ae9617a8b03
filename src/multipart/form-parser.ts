import { Writable } from 'node:stream';
import { partSizeHeader, ServiceError } from '../contract/index.js';
import { sizeIn } from './part-headers.js';

/** Bytes of one part's headers. A file name has at most 255; the rest is for additions of unusual clients. */
const maxPartHeaderBytes = 16 << 10;
/** Headers of one part. */
const maxPartHeaders = 32;
/** Characters of a boundary (RFC 2046, 5.1.1). */
const maxBoundary = 70;

/** Receives the content of one part. An error that it throws ends the form. */
export interface PartSink {
  /**
   * Called with each piece of the content, in order. The piece must not be changed.
   * @returns when the next piece may come; undefined for at once
   */
  take(piece: Buffer): Promise<void> | undefined;
  /** Called once, after the last piece. @returns when the next part may come; undefined for at once */
  end(): Promise<void> | undefined;
}

/** Receives the parts of a form. An error that it throws ends the form. */
export interface PartReceiver {
  /** @param headers by name in lower case; their values have one character a byte (Latin-1) */
  begin(headers: Readonly<Record<string, string>>): Promise<PartSink>;
  /** Called for each piece of the body, with the bytes and the parts so far. */
  onProgress(bytes: number, parts: number): void;
}

/** Bytes that may wait while earlier ones are written. */
const maxQueued = 256 << 10;

const carriageReturn = 0x0d;
const lineBreak = Buffer.from('\r\n');
const blankLine = Buffer.from('\r\n\r\n');
const hyphens = Buffer.from('--');
const empty = Buffer.alloc(0);

/** Bytes after a boundary: a line break, or two hyphens after the last part. */
const markSize = 2;

const badForm = (detail: string) =>
  new ServiceError('badRequest', `The body is not a multipart form: ${detail}`);

const malformed = () => badForm('a boundary, or a header of a part, is not well formed');

/**
 * The boundary that a Content-Type names.
 * @throws ServiceError 400
 */
export function readBoundary(contentType: string): string {
  const [, quoted, plain] = /boundary=(?:"([^"]+)"|([^;]+))/i.exec(contentType) ?? [];
  const boundary = quoted ?? plain?.trim() ?? '';
  if (boundary === '') throw badForm('the Content-Type names no boundary');
  if (boundary.length > maxBoundary) {
    throw badForm(`its boundary is longer than ${maxBoundary} characters`);
  }
  return boundary;
}

/** @throws ServiceError 400 */
function readHeaders(block: Buffer): Record<string, string> {
  const lines = block.length === 0 ? [] : block.toString('latin1').split('\r\n');
  if (lines.length > maxPartHeaders) throw badForm(`a part has more than ${maxPartHeaders} headers`);
  const headers: Record<string, string> = Object.create(null);
  for (const line of lines) {
    const [, name, value] = /^([\w!#$%&'*+.^`|~-]+):[ \t]*(.*)$/s.exec(line) ?? [];
    if (name === undefined || value === undefined) throw malformed();
    headers[name.toLowerCase()] = value;
  }
  return headers;
}

/** Encodings that leave the content as it is. RFC 7578 (4.7) deprecates all others. */
const plainEncodings = new Set(['', 'binary', '7bit', '8bit', 'utf-8']);

type State = 'headers' | 'content' | 'ended';

/**
 * Parses a body of the type multipart/form-data (RFC 7578). Content is passed on in slices of what was written, without
 * copying. A part may state the length of its content in a header of its own (`partSizeHeader`); such content is not
 * searched for its end. Emits ServiceError 400 for a malformed body, and what the receiver throws.
 */
export class FormParser extends Writable {
  /** A line break, two hyphens and the boundary. It stands between the parts and after the last one. */
  readonly #delimiter: Buffer;
  #state: State = 'content';
  /**
   * Bytes that cannot be interpreted before more have arrived; at first, the line break that belongs to the first boundary.
   */
  #rest: Buffer = lineBreak;
  #sink: PartSink | null = null;
  /** The size stated in the part's header, and how much of it is still to come; null if none is stated. */
  #size: number | null = null;
  #left: number | null = null;
  #bytes = 0;
  #parts = 0;

  constructor(
    boundary: string,
    private readonly receiver: PartReceiver,
  ) {
    super({
      highWaterMark: maxQueued,
      write: (piece: Buffer, _, done) => this.#take(piece).then(() => done(), done),
      final: (done) => done(this.#state === 'ended' ? null : this.#endedEarly()),
    });
    this.#delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
  }

  #endedEarly = () => new ServiceError('badRequest', 'The body ended before the form was complete');

  async #take(piece: Buffer): Promise<void> {
    this.#bytes += piece.length;
    this.receiver.onProgress(this.#bytes, this.#parts);
    let buffer = this.#rest.length === 0 ? piece : Buffer.concat([this.#rest, piece]);
    let isMore = true;
    while (isMore && this.#state !== 'ended') {
      const before = buffer;
      const isHeaders = this.#state === 'headers';
      buffer = isHeaders ? await this.#takeHeaders(buffer) : await this.#takeContent(buffer);
      // A destroyed parser takes no more parts.
      isMore = buffer.length > 0 && buffer !== before && !this.destroyed;
    }
    this.#rest = this.#state === 'ended' ? empty : buffer;
  }

  /**
   * Takes the headers of a part, from the line break before them. Returns what follows, or the same buffer if they are
   * incomplete.
   */
  async #takeHeaders(buffer: Buffer): Promise<Buffer> {
    const end = buffer.indexOf(blankLine);
    if ((end < 0 ? buffer.length : end) > maxPartHeaderBytes) {
      throw badForm(`the headers of a part are longer than ${maxPartHeaderBytes} bytes`);
    }
    if (end < 0) return buffer;
    const headers = readHeaders(buffer.subarray(markSize, end));
    this.#size = sizeIn(headers[partSizeHeader]);
    this.#left = this.#size;
    this.#parts += 1;
    const encoding = headers['content-transfer-encoding']?.trim().toLowerCase() ?? '';
    if (!plainEncodings.has(encoding))
      throw badForm('a part has a Content-Transfer-Encoding; send it as it is');
    this.#sink = await this.receiver.begin(headers);
    this.#state = 'content';
    return buffer.subarray(end + blankLine.length);
  }

  /** Takes content, and the boundary after it. Returns what follows; the same buffer if more has to arrive. */
  async #takeContent(buffer: Buffer): Promise<Buffer> {
    const end = this.#left === null ? this.#searchEnd(buffer) : this.#statedEnd(buffer, this.#left);
    if (end > 0) {
      if (this.#sink === null) throw malformed();
      const taken = this.#sink.take(buffer.subarray(0, end));
      if (taken) await taken;
    }
    const mark = end + this.#delimiter.length;
    if (buffer.length < mark + markSize) return end === 0 ? buffer : buffer.subarray(end);
    const ended = this.#sink?.end();
    if (ended) await ended;
    this.#sink = null;
    if (buffer.subarray(mark, mark + markSize).equals(hyphens)) this.#state = 'ended';
    else this.#state = 'headers';
    // The headers begin with the line break, so that the same search also finds an empty header.
    return buffer.subarray(mark);
  }

  /**
   * The end of content with a stated size, or of the buffer. A wrong size is refused, because the content may have been
   * truncated on its way.
   */
  #statedEnd(buffer: Buffer, left: number): number {
    const end = Math.min(left, buffer.length);
    this.#left = left - end;
    if (this.#left === 0 && !this.#mayEndAt(buffer, end)) {
      throw new ServiceError(
        'badRequest',
        `A part of the form does not have the ${this.#size} bytes that its header '${partSizeHeader}' says; send the form again`,
      );
    }
    return end;
  }

  /** The end of the content, or of the bytes that certainly belong to it. */
  #searchEnd(buffer: Buffer): number {
    const { length } = this.#delimiter;
    let at = buffer.indexOf(this.#delimiter);
    while (at >= 0 && !this.#mayEndAt(buffer, at)) at = buffer.indexOf(this.#delimiter, at + 1);
    if (at >= 0) return at;
    at = buffer.indexOf(carriageReturn, Math.max(0, buffer.length - length - markSize + 1));
    while (at >= 0 && !this.#mayEndAt(buffer, at)) at = buffer.indexOf(carriageReturn, at + 1);
    return at < 0 ? buffer.length : at;
  }

  /** Whether a boundary with its ending starts here, or as much of it as the buffer still holds. */
  #mayEndAt(buffer: Buffer, at: number): boolean {
    const { length } = this.#delimiter;
    const seen = buffer.subarray(at, at + length);
    if (!this.#delimiter.subarray(0, seen.length).equals(seen)) return false;
    const mark = buffer.subarray(at + length, at + length + markSize);
    return [lineBreak, hyphens].some((each) => each.subarray(0, mark.length).equals(mark));
  }
}
