import { dataField, doneMarker, errorMarker, idField, redrawField } from '../../contract/index.js';

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const space = 0x20;
/** Single bytes that some readers treat as a line end: VT, FF, FS, GS and RS. */
const controls = [0x0b, 0x0c, 0x1c, 0x1d, 0x1e] as const;
const nextLine = Buffer.from('\u0085');
const lineSeparator = Buffer.from('\u2028');
const paragraphSeparator = Buffer.from('\u2029');

/** Replacements of a character, by its length in bytes. */
const twoSpaces = Buffer.from('  ');
const replacement = Buffer.from('\ufffd');

const has = (bytes: Buffer, byte: number): boolean => bytes.indexOf(byte) >= 0;

function replaceAll(bytes: Buffer, wanted: Buffer | number, by: Buffer | number): void {
  for (let at = bytes.indexOf(wanted); at >= 0; at = bytes.indexOf(wanted, at)) {
    if (typeof by === 'number') bytes[at] = by;
    else by.copy(bytes, at);
  }
}

/** Replaces the carriage returns inside lines; one that ends a line says that the line was redrawn. */
function replaceReturns(bytes: Buffer): void {
  for (let at = bytes.indexOf(carriageReturn); at >= 0; at = bytes.indexOf(carriageReturn, at + 1)) {
    if (bytes[at + 1] !== lineFeed) bytes[at] = space;
  }
}

/**
 * Replaces, in place, all characters other than the end of each line that some readers treat as the end of a line (those
 * of Python's `splitlines`). To such a reader the text after one could look like the end of the stream, or another field.
 * Nearly all text is free of them. Searching for one byte is fast, but searching for a character of several bytes is slow
 * if its first byte is frequent, as in a progress bar. So the rarest byte of each character is searched for first.
 */
function replaceLineEnds(lines: Buffer): void {
  replaceReturns(lines);
  for (const control of controls) {
    if (has(lines, control)) replaceAll(lines, control, space);
  }
  if (has(lines, 0x85) && has(lines, 0xc2)) replaceAll(lines, nextLine, twoSpaces);
  if ((has(lines, 0xa8) || has(lines, 0xa9)) && has(lines, 0xe2)) {
    replaceAll(lines, lineSeparator, replacement);
    replaceAll(lines, paragraphSeparator, replacement);
  }
}

/** Bytes of events that are sent at once. */
const pieceSize = 48 * 1024;
/** Most bytes before a line: `id: `, sixteen digits, `event: redraw`, `data: `, and the protecting space. */
const fieldsSize = 64;

const underscore = 0x5f;
const dataBytes = Buffer.from(dataField);
const redrawBytes = Buffer.from(`${redrawField}\n`);
/** The beginnings of lines that a reader could take for the end of the stream. */
const markers = [Buffer.from(`${doneMarker}\n`), Buffer.from(errorMarker)];

function isMarker(lines: Buffer, start: number): boolean {
  // A fast check first, because few lines begin like that.
  if (lines[start] !== underscore) return false;
  return markers.some((marker) => marker.equals(lines.subarray(start, start + marker.length)));
}

/**
 * Turns the lines of a log into server-sent events (docs/http.md, Log). Works on bytes, in one buffer for the whole stream:
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
  of(lines: Buffer): Generator<Buffer> {
    return this.#eventsOf(lines, true);
  }

  /** The same for lines that are not in the log, which therefore have no number. */
  ofUnnumbered(lines: Buffer): Generator<Buffer> {
    return this.#eventsOf(lines, false);
  }

  /** Leaves out a line of the log. */
  pass(): void {
    if (this.next !== null) this.next += 1;
  }

  *#eventsOf(lines: Buffer, isNumbered: boolean): Generator<Buffer> {
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
      size = this.#beginEvent(size, isRedraw, isNumbered);
      // A line of the app must not end the stream: a space in front of it prevents that.
      if (isMarker(lines, at)) size = piece.writeUInt8(space, size);
      // In parts if the line is longer than a piece.
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

  #beginEvent(at: number, isRedraw: boolean, isNumbered: boolean): number {
    let size = at;
    if (isNumbered && this.next !== null) {
      size += this.#piece.write(`${idField}${this.next}\n`, size, 'latin1');
      this.next += 1;
    }
    if (isRedraw && this.tellsRedraws) size += redrawBytes.copy(this.#piece, size);
    return size + dataBytes.copy(this.#piece, size);
  }
}
