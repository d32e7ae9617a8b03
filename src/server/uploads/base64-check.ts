/**
 * Finds out whether bytes that arrive in pieces are base64 (RFC 4648, 4) and nothing else. formidable decodes what it can:
 * it skips other bytes, and loses some of those around a line break.
 */
export class Base64Check {
  /** The start of a group of four letters, whose rest has not arrived. */
  #rest = '';
  /** Padding has come, which ends the text. */
  #isOver = false;

  /** @returns false if what has arrived so far is not the beginning of such a text */
  take(piece: Buffer): boolean {
    const text = this.#rest + piece.toString('latin1');
    const groups = text.slice(0, text.length - (text.length % 4));
    this.#rest = text.slice(groups.length);
    // Encoded again, it is the same text only if the decoder has passed over nothing.
    const isExact = !this.#isOver && Buffer.from(groups, 'base64').toString('base64') === groups;
    this.#isOver = groups.endsWith('=');
    return isExact;
  }

  /** Whether the text is whole. */
  get isWhole(): boolean {
    return this.#rest === '';
  }
}
