import { dataField, doneMarker, errorMarker, idField } from '../../contract/log-stream.js';
import { replaceLineEnds } from './line-ends.js';

/** Bytes of events handed on at once. */
const pieceSize = 48 * 1024;
/** Bytes that what goes before a line takes at most: `id: `, sixteen digits, `data: `, the shield. */
const fieldsSize = 32;

const lineFeed = 0x0a;
const space = 0x20;
const underscore = 0x5f;
const dataBytes = Buffer.from(dataField);
/** How a line begins that reads as the end of a stream. */
const markers = [Buffer.from(`${doneMarker}\n`), Buffer.from(errorMarker)];

function isMarker(lines: Buffer, start: number): boolean {
  // Few lines begin so: the others cost no more than this.
  if (lines[start] !== underscore) return false;
  return markers.some((marker) => marker.equals(lines.subarray(start, start + marker.length)));
}

/**
 * Makes server-sent events of the lines of a log (spec.md, Events). It works on bytes, and in one buffer for the
 * whole of a stream: strings of every line would be most of what many streams take of the server's memory.
 */
export class EventBytes {
  readonly #piece = Buffer.allocUnsafeSlow(pieceSize);

  /** @param next number of the first line; null where the events are to carry no `id:` */
  constructor(private next: number | null) {}

  /**
   * The events of whole lines, in pieces of which each is good until the next is asked for. What could end a line for
   * some reader is replaced in `lines` itself.
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
      size = this.#beginEvent(size);
      // A line of the app's own does not end the stream: one space goes before it.
      if (isMarker(lines, at)) size = piece.writeUInt8(space, size);
      const end = lines.indexOf(lineFeed, at) + 1;
      // In parts, where the line is longer than a piece.
      while (at < end) {
        const copied = lines.copy(piece, size, at, end);
        at += copied;
        size += copied;
        if (size === piece.length) {
          yield piece;
          size = 0;
        }
      }
      size = piece.writeUInt8(lineFeed, size);
    }
    if (size > 0) yield piece.subarray(0, size);
  }

  #beginEvent(at: number): number {
    let size = at;
    if (this.next !== null) {
      size += this.#piece.write(`${idField}${this.next}\n`, size, 'latin1');
      this.next += 1;
    }
    return size + dataBytes.copy(this.#piece, size);
  }
}
