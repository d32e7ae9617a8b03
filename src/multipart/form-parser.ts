import { Writable } from 'node:stream';
import { partSizeHeader, ServiceError } from '../contract/index.js';
import { sizeIn } from './part-headers.js';

/**
 * Maximum size in bytes of one part's headers. A file name takes at most 255; the rest allows for headers that unusual clients
 * add.
 */
const maxPartHeaderBytes = 16 << 10;
/** Maximum number of headers of one part. */
const maxPartHeaders = 32;
/** Maximum number of characters in a boundary (RFC 2046, 5.1.1). */
const maxBoundary = 70;

/** Receives the content of one part. Any error that it throws aborts the parsing of the form. */
export interface PartSink {
  /**
   * Called with each piece of the content, in order. The piece must not be changed.
   * @returns resolves when the next piece may come; undefined if it may come at once
   */
  take(piece: Buffer): Promise<void> | undefined;
  /** Called once, after the last piece. @returns resolves when the next part may come; undefined if it may come at once */
  end(): Promise<void> | undefined;
}

/** Receives the parts of a form. Any error that it throws aborts the parsing of the form. */
export interface PartReceiver {
  /**
   * Called at the start of each part. @param headers by name in lower case; each character of a value stands for one byte
   * (Latin-1)
   */
  begin(headers: Readonly<Record<string, string>>): Promise<PartSink>;
  /** Called for each piece of the body, with the numbers of bytes and parts so far. */
  onProgress(bytes: number, parts: number): void;
}

/** Number of bytes that may queue up while earlier ones are processed. */
const maxQueued = 256 << 10;

const carriageReturn = 0x0d;
const lineBreak = Buffer.from('\r\n');
const blankLine = Buffer.from('\r\n\r\n');
const hyphens = Buffer.from('--');
const empty = Buffer.alloc(0);

/** Number of bytes after a boundary: a line break, or two hyphens after the last part. */
const markSize = 2;

const badForm = (detail: string) =>
  new ServiceError('badRequest', `The body is not a multipart form: ${detail}`);

const malformed = () => badForm('a boundary, or a header of a part, is not well formed');

/**
 * Reads the boundary from a Content-Type.
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

/** Parses the headers of a part. @throws ServiceError 400 */
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
 * Parses a body of type multipart/form-data (RFC 7578). Content is passed on as slices of the input, without copying. A part may
 * state the length of its content in a non-standard header (`partSizeHeader`); such content is not searched for its end. Emits a
 * ServiceError 400 for a malformed body, and any error that the receiver throws.
 */
export class FormParser extends Writable {
  /** A line break, two hyphens and the boundary: the delimiter between parts and after the last one. */
  readonly #delimiter: Buffer;
  #state: State = 'content';
  /**
   * Bytes that cannot be interpreted until more have arrived. Starts with a line break, so that the first boundary looks like all
   * others.
   */
  #rest: Buffer = lineBreak;
  #sink: PartSink | null = null;
  /** The content length that the part's header states, and how much of it is still to come; null if none is stated. */
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
   * Consumes the headers of a part, including the line break before them. Returns the rest, or the same buffer if the headers are
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

  /** Consumes content and the boundary after it. Returns the rest, or the same buffer if more bytes are needed. */
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
    // The rest starts with the line break, so that the search for a blank line also matches a part without headers.
    return buffer.subarray(mark);
  }

  /**
   * The end of content with a stated length, or the end of the buffer if that comes first. A wrong length is refused, because the
   * content may have been truncated in transit.
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

  /** Whether a complete boundary starts at this position, or as much of one as the buffer still holds. */
  #mayEndAt(buffer: Buffer, at: number): boolean {
    const { length } = this.#delimiter;
    const seen = buffer.subarray(at, at + length);
    if (!this.#delimiter.subarray(0, seen.length).equals(seen)) return false;
    const mark = buffer.subarray(at + length, at + length + markSize);
    return [lineBreak, hyphens].some((each) => each.subarray(0, mark.length).equals(mark));
  }
}
