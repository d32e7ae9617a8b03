/** Longest line of the log, in characters. A longer line is continued on the next one. */
export const maxLineLength = 64 * 1024;

/** A line of a program's output. A redraw is a line that ends with a carriage return, as progress bars print them. */
export interface OutputLine {
  readonly text: string;
  readonly isRedraw: boolean;
}

/**
 * Splits a program's output into lines. A line ends at `\n`, `\r\n` or `\r` (interface.md, Log stream); bytes that
 * are not UTF-8 become U+FFFD. Never holds more than one line in memory.
 */
export class LineSplitter {
  readonly #decoder = new TextDecoder();
  #rest = '';
  /**
   * Whether the last piece ended with `\r`. Its line is held back, since a `\n` at the start of the next piece belongs to it;
   * after a pause it is a redraw, and the `\n` ends nothing.
   */
  #return: 'none' | 'held' | 'passed' = 'none';

  push(chunk: Uint8Array): OutputLine[] {
    return this.#cut(this.#decoder.decode(chunk, { stream: true }));
  }

  /** The line that is held back, after a time without output. */
  pause(): OutputLine[] {
    if (this.#return !== 'held') return [];
    const lines: OutputLine[] = [];
    this.#complete('', true, lines);
    this.#return = 'passed';
    return lines;
  }

  /** The lines that the end of the output completes. */
  end(): OutputLine[] {
    const lines = [...this.#cut(this.#decoder.decode()), ...this.pause()];
    if (this.#rest !== '') lines.push({ text: this.#rest, isRedraw: false });
    this.#rest = '';
    return lines;
  }

  #cut(decoded: string): OutputLine[] {
    if (decoded === '') return [];
    const lines: OutputLine[] = [];
    const isEnded = this.#return !== 'none' && decoded.startsWith('\n');
    if (this.#return === 'held') this.#complete('', !isEnded, lines);
    this.#return = decoded.endsWith('\r') ? 'held' : 'none';
    const text = decoded.slice(isEnded ? 1 : 0, this.#return === 'held' ? -1 : undefined);
    const ends = /\r\n|\n|\r/g;
    let start = 0;
    for (let end = ends.exec(text); end !== null; end = ends.exec(text)) {
      this.#complete(text.slice(start, end.index), end[0] === '\r', lines);
      start = ends.lastIndex;
    }
    this.#rest += text.slice(start);
    this.#rest = this.#wrap(this.#rest, lines);
    return lines;
  }

  #complete(tail: string, isRedraw: boolean, lines: OutputLine[]): void {
    const text = this.#wrap(this.#rest + tail, lines);
    this.#rest = '';
    lines.push({ text, isRedraw });
  }

  /** Emits what is longer than a line may be; returns the remainder. */
  #wrap(text: string, lines: OutputLine[]): string {
    let start = 0;
    while (text.length - start > maxLineLength) {
      let end = start + maxLineLength;
      // Does not split a pair of surrogates, which is one character.
      if ((text.charCodeAt(end - 1) & 0xfc00) === 0xd800) end -= 1;
      lines.push({ text: text.slice(start, end), isRedraw: false });
      start = end;
    }
    return start === 0 ? text : text.slice(start);
  }
}
