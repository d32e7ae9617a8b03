import { stripVTControlCharacters } from 'node:util';

/** Whether a terminal shows nothing of a text. */
export const isBlank = (text: string): boolean => stripVTControlCharacters(text).trim() === '';

/** A bar's text without its figures and its drawing. */
const wordsOf = (text: string): string =>
  stripVTControlCharacters(text)
    .replaceAll(/\P{L}+/gu, ' ')
    .trim();

/** Whether a text is another state of a bar, judging by its words. */
const isSameBar = (state: string | null, text: string): boolean =>
  state !== null && wordsOf(state) === wordsOf(text);

const up = '\u001b[';
/** Most sequences that are looked for on one side of a line, and most rows of a block: bars in bars in bars. */
const maxRows = 20;

/** A line of a log without the sequences around its text that move the cursor up, and how many rows up these go. */
interface MovedText {
  readonly before: number;
  readonly body: string;
  readonly after: number;
}

const isUp = /^\d{0,2}A$/;
const rowsOf = (sequence: string): number => Math.max(1, Number.parseInt(sequence, 10) || 1);

/** Strips the cursor movements from both ends of a line. */
function movedText(text: string): MovedText {
  let [before, after, body] = [0, 0, text];
  for (let at = 0; at < maxRows && body.startsWith(up); at += 1) {
    const sequence = body.slice(up.length, body.indexOf('A') + 1);
    if (!isUp.test(sequence)) break;
    before += rowsOf(sequence);
    body = body.slice(up.length + sequence.length);
  }
  for (let at = 0; at < maxRows && body.endsWith('A'); at += 1) {
    const start = body.lastIndexOf(up);
    const sequence = body.slice(start + up.length);
    if (start < 0 || !isUp.test(sequence)) break;
    after += rowsOf(sequence);
    body = body.slice(0, start);
  }
  return { before, body, after };
}

/** Rows that a program redraws together, such as the bars of nested loops, as a terminal would show them. */
class BarBlock {
  #rows: string[];
  #at: number;

  /**
   * @param first the row above the one that is written next
   * @param depth how many rows below the top the next text goes
   */
  constructor(first: string, depth: number) {
    const rows = Array.from({ length: Math.min(depth, maxRows) }, () => '');
    this.#rows = [...rows.slice(1), first, ''];
    this.#at = this.#rows.length - 1;
  }

  /** The rows that show something. */
  get rows(): string[] {
    return this.#rows.filter((row) => !isBlank(row));
  }

  /** What the row at the cursor shows. */
  get current(): string {
    return this.#rows[this.#at] ?? '';
  }

  get hasRowsBelow(): boolean {
    return this.#rows.slice(this.#at + 1).some((row) => !isBlank(row));
  }

  up(rows: number): void {
    this.#at = Math.max(0, this.#at - rows);
  }

  /** Writes over the row at the cursor. */
  write(text: string): void {
    if (text !== '') this.#rows[this.#at] = text;
  }

  /** @returns the row that does not fit any more */
  down(): string[] {
    this.#at += 1;
    if (this.#at === this.#rows.length) this.#rows.push('');
    if (this.#rows.length <= maxRows) return [];
    this.#at -= 1;
    return [this.#rows.shift() ?? ''].filter((row) => !isBlank(row));
  }

  /** Takes the row at the cursor, and those above it, out of the block, because they can no longer change. */
  leaveAbove(): string[] {
    const left = this.#rows.slice(0, this.#at).filter((row) => !isBlank(row));
    this.#rows = this.#rows.slice(this.#at + 1);
    if (this.#rows.length === 0) this.#rows.push('');
    this.#at = 0;
    return left;
  }
}

/**
 * Makes the rows that a person sees of the lines of a log. A redraw, which is a line that a carriage return ended, is the
 * state of a row until the next one comes; only the last state stays.
 *
 * Programs draw bars in two ways. Some begin each state with the carriage return (tqdm): the line feed at the end belongs to
 * the last state, so that line replaces the one before it. Others end each state with it: what comes next is a line of
 * its own, unless it is the bar's last state with a line feed. The former are known by the empty redraw that they begin with,
 * a last state by its words, which are those of the state before.
 *
 * A bar in a bar goes down a row, writes its state there, and goes up again. The last state of a bar that begins with the
 * return is therefore held until it is known whether the next one goes back to it; from then on both are a `BarBlock`.
 */
export class LogRows {
  #style: 'none' | 'returnsFirst' | 'returnsLast' = 'none';
  #state: string | null = null;
  /** A bar whose last state seems to have come. */
  #held: string | null = null;
  #block: BarBlock | null = null;
  /** Whether the row of the block at the cursor was returned to: what comes next there is a state, and no line of text. */
  #isReturned = false;
  #hasRedraws = false;

  /** The rows that may still be redrawn; none without one. */
  get states(): readonly string[] {
    if (this.#block) return this.#block.rows;
    const state = this.#state ?? this.#held;
    return state === null ? [] : [state];
  }

  /** Takes a line of the log; returns the rows that will not change any more. */
  push(text: string, isRedraw: boolean): string[] {
    this.#hasRedraws ||= isRedraw;
    const moved = movedText(text);
    // A server that does not report redraws sends lines only.
    if (moved.after > 0 && this.#hasRedraws) this.#block ??= this.#open(moved.after);
    if (this.#block) return this.#pushNested(this.#block, moved, isRedraw);
    if (isRedraw && text === '') {
      this.#redraw(text);
      return [];
    }
    const held = this.#release();
    if (isRedraw) {
      this.#redraw(text);
      return held;
    }
    const isBar = text !== '' && this.#style === 'returnsFirst';
    const isLast = isBar || (text !== '' && isSameBar(this.#state, text));
    const kept = isLast ? null : this.#state;
    this.#clear();
    if (isBar) {
      this.#held = text;
      return held;
    }
    if (kept === null) return [...held, text];
    // Only a line feed ends the row.
    return text === '' ? [...held, kept] : [...held, kept, text];
  }

  /** The rows that the end of the log leaves. */
  end(): string[] {
    const left = [...this.#release(), ...(this.#block?.rows ?? [])];
    const kept = this.#state;
    this.#clear();
    this.#block = null;
    return kept === null ? left : [...left, kept];
  }

  #redraw(text: string): void {
    if (text === '') {
      // Some programs write a carriage return before each state of a bar, others after it.
      this.#style = this.#state === null ? 'returnsFirst' : 'returnsLast';
    } else if (isBlank(text)) {
      // Blanks over a bar, or a sequence that deletes: the program took the bar away.
      this.#clear();
    } else {
      if (this.#style === 'none') this.#style = 'returnsLast';
      this.#state = text;
    }
  }

  #open(depth: number): BarBlock {
    const block = new BarBlock(this.#held ?? '', depth);
    this.#held = null;
    this.#clear();
    return block;
  }

  #pushNested(block: BarBlock, { before, body, after }: MovedText, isRedraw: boolean): string[] {
    block.up(before);
    const isState =
      isRedraw || after > 0 || isBlank(body) || this.#isReturned || isSameBar(block.current, body);
    this.#isReturned = isRedraw;
    if (!isState) {
      // Text of the program stays, and the bars continue below it.
      const left = [...block.leaveAbove(), body];
      if (block.rows.length === 0) this.#block = null;
      return left;
    }
    block.write(body);
    block.up(after);
    if (isRedraw) return [];
    if (after > 0 || isBlank(body) || block.hasRowsBelow) return block.down();
    // The outermost bar without one in it: that was its last state, or the next bar in it comes.
    const left = block.leaveAbove();
    this.#block = null;
    this.#held = body;
    return left;
  }

  #release(): string[] {
    const held = this.#held;
    this.#held = null;
    return held === null ? [] : [held];
  }

  #clear(): void {
    this.#style = 'none';
    this.#state = null;
  }
}
