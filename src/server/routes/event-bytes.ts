import { dataField, doneMarker, errorMarker, idField, redrawField } from '../../contract/index.js';
import { replaceLineEnds } from './line-ends.js';

/** Bytes of events that are sent at once. */
const pieceSize = 48 * 1024;
/** Most bytes in front of a line: `id: `, sixteen digits, `event: redraw`, `data: `, the shield. */
const fieldsSize = 64;

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const space = 0x20;
const underscore = 0x5f;
const dataBytes = Buffer.from(dataField);
const redrawBytes = Buffer.from(`${redrawField}\n`);
/** The beginnings of lines that could be read as the end of a stream. */
const markers = [Buffer.from(`${doneMarker}\n`), Buffer.from(errorMarker)];

function isMarker(lines: Buffer, start: number): boolean {
  // A fast check first: few lines begin like that.
  if (lines[start] !== underscore) return false;
  return markers.some((marker) => marker.equals(lines.subarray(start, start + marker.length)));
}

/**
 * Makes server-sent events of the lines of a log (spec.md, Events). Works on bytes, in one buffer for the whole stream:
 * with a string for each line, many streams would take far more memory (bench row `memory-server-streams`).
 */
export class EventBytes {
  readonly #piece = Buffer.allocUnsafeSlow(pieceSize);

  /**
   * @param next number of the first line; null for events without `id:`
   * @param tellsRedraws whether events say which lines a carriage return ended
   */
  constructor(
    private next: number | null,
    private readonly tellsRedraws: boolean,
  ) {}

  /**
   * The events of complete lines, in pieces. Each piece is valid until the next one is requested. Replaces characters that
   * some readers treat as the end of a line, in `lines` itself.
   */
  *of(lines: Buffer): Generator<Buffer> {
    replaceLineEnds(lines);
    const piece = this.#piece;
    let size = 0;
    for (let at = 0; at < lines.length; ) {
      if (size + fieldsSize > piece.length) {
        yield piece.subarray(0, size);
        size = 0;
      }
      const next = lines.indexOf(lineFeed, at) + 1;
      // The carriage return of a redraw is not sent: the line feed takes its place.
      const isRedraw = next - 2 >= at && lines[next - 2] === carriageReturn;
      const end = isRedraw ? lines.writeUInt8(lineFeed, next - 2) : next;
      size = this.#beginEvent(size, isRedraw);
      // A line of the app must not end the stream: a space in front of it prevents that.
      if (isMarker(lines, at)) size = piece.writeUInt8(space, size);
      // In parts, if the line is longer than a piece.
      while (at < end) {
        const copied = lines.copy(piece, size, at, end);
        at += copied;
        size += copied;
        if (size === piece.length) {
          yield piece;
          size = 0;
        }
      }
      at = next;
      size = piece.writeUInt8(lineFeed, size);
    }
    if (size > 0) yield piece.subarray(0, size);
  }

  #beginEvent(at: number, isRedraw: boolean): number {
    let size = at;
    if (this.next !== null) {
      size += this.#piece.write(`${idField}${this.next}\n`, size, 'latin1');
      this.next += 1;
    }
    if (isRedraw && this.tellsRedraws) size += redrawBytes.copy(this.#piece, size);
    return size + dataBytes.copy(this.#piece, size);
  }
}
