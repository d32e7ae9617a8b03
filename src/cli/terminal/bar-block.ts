import { isBlank } from './bar-text.js';

const up = '\u001b[';
/** Most sequences that are looked for on one side of a line, and most rows of a block: bars in bars in bars. */
const most = 20;

/** A line of a log without the sequences around its text that move the cursor up, and how many rows up these go. */
export interface MovedText {
  readonly before: number;
  readonly body: string;
  readonly behind: number;
}

const isUp = /^\d{0,2}A$/;
const rowsOf = (sequence: string): number => Math.max(1, Number.parseInt(sequence, 10) || 1);

/** Takes the movements at both ends of a line away. */
export function movedText(text: string): MovedText {
  let [before, behind, body] = [0, 0, text];
  for (let at = 0; at < most && body.startsWith(up); at += 1) {
    const sequence = body.slice(up.length, body.indexOf('A') + 1);
    if (!isUp.test(sequence)) break;
    before += rowsOf(sequence);
    body = body.slice(up.length + sequence.length);
  }
  for (let at = 0; at < most && body.endsWith('A'); at += 1) {
    const start = body.lastIndexOf(up);
    const sequence = body.slice(start + up.length);
    if (start < 0 || !isUp.test(sequence)) break;
    behind += rowsOf(sequence);
    body = body.slice(0, start);
  }
  return { before, body, behind };
}

/** Rows that a program redraws together, such as the bars of nested loops, as a terminal would have them. */
export class BarBlock {
  #rows: string[];
  #at: number;

  /**
   * @param first the row above the one that is written next
   * @param depth how many rows below the top the next text goes
   */
  constructor(first: string, depth: number) {
    const rows = Array.from({ length: Math.min(depth, most) }, () => '');
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
    if (this.#rows.length <= most) return [];
    this.#at -= 1;
    return [this.#rows.shift() ?? ''].filter((row) => !isBlank(row));
  }

  /** Takes the rows above the cursor, and the one at it, out of the block: they will not change any more. */
  leaveAbove(): string[] {
    const left = this.#rows.slice(0, this.#at).filter((row) => !isBlank(row));
    this.#rows = this.#rows.slice(this.#at + 1);
    if (this.#rows.length === 0) this.#rows.push('');
    this.#at = 0;
    return left;
  }
}
