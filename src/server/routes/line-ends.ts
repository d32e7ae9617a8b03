const space = 0x20;

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
/** Single bytes that some readers treat as the end of a line: VT, FF, FS, GS and RS. */
const controls = [0x0b, 0x0c, 0x1c, 0x1d, 0x1e] as const;
const nextLine = Buffer.from('\u0085');
const lineSeparator = Buffer.from('\u2028');
const paragraphSeparator = Buffer.from('\u2029');

/** The replacement of a character, by its length in bytes. */
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
 * Replaces, in place, all characters other than the end of each line that some readers treat as the end of a line (those of
 * Python's `splitlines`). To such a reader the text behind one could look like the end of the stream, or another field.
 * Nearly all text has none of them. Searching for one byte is fast; searching for a character of several bytes is slow if
 * its first byte is frequent, as in a progress bar. So the rarest byte of each character is searched first.
 */
export function replaceLineEnds(lines: Buffer): void {
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
