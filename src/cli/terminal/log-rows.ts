import { stripVTControlCharacters } from 'node:util';

/** Whether a line shows nothing. */
export const isBlank = (text: string): boolean => stripVTControlCharacters(text).trim() === '';

/** What a bar says without its figures and its drawing. */
const wordsOf = (text: string): string =>
  stripVTControlCharacters(text)
    .replaceAll(/\P{L}+/gu, ' ')
    .trim();

const isSameBar = (state: string | null, text: string): boolean =>
  state !== null && wordsOf(state) === wordsOf(text);

/**
 * Makes the rows that a person sees of the lines of a log. A redraw, which is a line that a carriage return ended, is the
 * state of a row until the next one comes; only the last state stays.
 *
 * Programs draw bars in two ways. Some begin each state with the carriage return (tqdm): the line feed at the end belongs to
 * the last state, so that line replaces the one before it. Others end each state with it: what comes next is a line of
 * its own, unless it is the bar's last state with a line feed. The former are known by the empty redraw that they begin with,
 * a last state by its words, which are those of the state before.
 */
export class LogRows {
  #style: 'none' | 'returnsFirst' | 'returnsLast' = 'none';
  #state: string | null = null;

  /** The state of the row that may still be redrawn; null without one. */
  get state(): string | null {
    return this.#state;
  }

  /** Takes a line of the log; returns the rows that will not change any more. */
  push(text: string, isRedraw: boolean): string[] {
    if (isRedraw) {
      this.#redraw(text);
      return [];
    }
    const isLast = text !== '' && (this.#style === 'returnsFirst' || isSameBar(this.#state, text));
    const kept = isLast ? null : this.#state;
    this.#clear();
    if (kept === null) return [text];
    // A line feed alone ends the row.
    return text === '' ? [kept] : [kept, text];
  }

  /** The row that the end of the log leaves. */
  end(): string[] {
    const kept = this.#state;
    this.#clear();
    return kept === null ? [] : [kept];
  }

  #redraw(text: string): void {
    if (text === '') {
      // A return in an empty row is the first of a bar; a second one behind a state is the state's own.
      this.#style = this.#state === null ? 'returnsFirst' : 'returnsLast';
    } else if (isBlank(text)) {
      // Blanks over a bar, or a sequence that deletes: the program took the bar away.
      this.#clear();
    } else {
      if (this.#style === 'none') this.#style = 'returnsLast';
      this.#state = text;
    }
  }

  #clear(): void {
    this.#style = 'none';
    this.#state = null;
  }
}
