const space = 0x20;

/** Single bytes that some reader takes for the end of a line: VT, FF, CR, FS, GS and RS. */
const controls = [0x0b, 0x0c, 0x0d, 0x1c, 0x1d, 0x1e] as const;
const nextLine = Buffer.from('\u0085');
const lineSeparator = Buffer.from('\u2028');
const paragraphSeparator = Buffer.from('\u2029');

/** What stands for a character that took as many bytes. */
const twoSpaces = Buffer.from('  ');
const replacement = Buffer.from('\ufffd');

const has = (bytes: Buffer, byte: number): boolean => bytes.indexOf(byte) >= 0;

function replaceAll(bytes: Buffer, wanted: Buffer | number, by: Buffer | number): void {
  for (let at = bytes.indexOf(wanted); at >= 0; at = bytes.indexOf(wanted, at)) {
    if (typeof by === 'number') bytes[at] = by;
    else by.copy(bytes, at);
  }
}

/**
 * Replaces, in place, what some reader takes for the end of a line beside the line feed: all of Python's `splitlines`.
 * A line that goes on behind one of them could read as the end of the stream, or as any other field, to such a reader.
 * Nearly all text has none of them. To look for a byte is fast, for a character of several is slow where its first byte
 * is frequent, as in a progress bar; so a character is looked for only where its rarest byte was found.
 */
export function replaceLineEnds(lines: Buffer): void {
  for (const control of controls) {
    if (has(lines, control)) replaceAll(lines, control, space);
  }
  if (has(lines, 0x85) && has(lines, 0xc2)) replaceAll(lines, nextLine, twoSpaces);
  if ((has(lines, 0xa8) || has(lines, 0xa9)) && has(lines, 0xe2)) {
    replaceAll(lines, lineSeparator, replacement);
    replaceAll(lines, paragraphSeparator, replacement);
  }
}
