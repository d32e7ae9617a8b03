import { stripVTControlCharacters } from 'node:util';

/** Whether a text is invisible on a terminal. */
const isBlank = (text: string): boolean => stripVTControlCharacters(text).trim() === '';

/** A bar's text without figures and graphics. */
const wordsOf = (text: string): string =>
  stripVTControlCharacters(text)
    .replaceAll(/\P{L}+/gu, ' ')
    .trim();

/** Whether a text is another state of the same bar, judging by its words. */
const isSameBar = (state: string | null, text: string): boolean =>
  state !== null && wordsOf(state) === wordsOf(text);

/** Cursor-up sequences, with which nested loops move between the rows of their bars. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: a control sequence is what is searched for
const cursorUp = /\u001b\[\d{0,2}A/g;

/**
 * Turns the lines of a log into the rows that a user sees on a terminal. A redraw (a line ended by a carriage return) is a state
 * of a bar, and is replaced by the next one; only the last state remains. The bars of nested loops move up and down between their
 * rows: these movements are removed, and each line ended by a line feed is a row.
 *
 * Programs draw bars in two ways. Some begin each state with the carriage return (tqdm): the line feed at the end then belongs to
 * the last state, so that line replaces the one before it. Others end each state with the carriage return: the following line is
 * a separate one, unless it is the bar's last state with a line feed. The first kind is recognised by the empty redraw at the
 * beginning, a last state of the second kind by its words, which equal those of the state before.
 */
export class LogRows {
  #returnsFirst = false;
  #state: string | null = null;

  /** The row that may still be redrawn. */
  get state(): string | null {
    return this.#state;
  }

  /** Adds a line of the log; returns the rows that will not change any more. */
  push(line: string, isRedraw: boolean): string[] {
    const text = line.replaceAll(cursorUp, '');
    if (isRedraw) {
      this.#redraw(text);
      return [];
    }
    const state = this.#state;
    const isLastState = text !== '' && (this.#returnsFirst || isSameBar(state, text));
    this.#clear();
    // The line erased a bar in another row.
    if (text !== line && isBlank(text)) return [];
    if (state === null || isLastState) return [text];
    // An empty line is only the line feed that ends the row.
    return text === '' ? [state] : [state, text];
  }

  /** The rows that remain at the end of the log. */
  end(): string[] {
    const state = this.#state;
    this.#clear();
    return state === null ? [] : [state];
  }

  #redraw(text: string): void {
    if (text === '') this.#returnsFirst = this.#state === null;
    // Blanks over a bar, or an erase sequence: the program removed the bar.
    else if (isBlank(text)) this.#clear();
    else this.#state = text;
  }

  #clear(): void {
    this.#returnsFirst = false;
    this.#state = null;
  }
}
