import stringWidth from 'string-width';

/** One row of a screen: what each column shows. A wide character is in its first column; the second is empty. */
interface Row {
  cells: string[];
  /** Whether the text continued in the next row because this one was full. */
  isWrapped: boolean;
}

const blank = ' ';
const emptyRow = (): Row => ({ cells: [], isWrapped: false });
const graphemes = new Intl.Segmenter();

/**
 * A picture or a question about pictures; or a control sequence with its parameters and its last character; or a single
 * control character; or text.
 */
const tokens =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a terminal acts on
  /\u001b[P_][^\u001b]*\u001b\\|\u001b\[([0-?]*)([@-~])|([\u0000-\u001f\u007f])|([^\u0000-\u001f\u007f]+)/g;

/**
 * What a terminal of so many columns shows of the bytes that it is sent, as far as our own lines need it: text, `\r`, `\n`,
 * `\b` and `\t`, the cursor along a row and up and down, deleting in a row and below, colours. Pictures and questions are
 * passed over. Anything else is an error of the program. There is no height: no row is ever lost.
 */
export class Screen {
  #rows: Row[] = [emptyRow()];
  #row = 0;
  /** Equal to `columns` behind a full row: the next character wraps. */
  #column = 0;
  /** Whether text goes on in the next row when a row is full; otherwise the last column is written over. */
  #wraps = true;
  /** The beginning of a control sequence that is not complete yet. */
  #rest = '';

  constructor(private columns: number) {}

  /** The rows, without the blanks at their end and without empty rows at the bottom. */
  get rows(): string[] {
    const rows = this.#rows.map(({ cells }) => cells.join('').trimEnd());
    while (rows.length > 0 && rows.at(-1) === '') rows.pop();
    return rows;
  }

  /** The rows that were too long for the screen, and go on in the next one. */
  get wrapped(): string[] {
    return this.#rows.filter(({ isWrapped }) => isWrapped).map(({ cells }) => cells.join(''));
  }

  /** The cursor's row and column, from 0. */
  get cursor(): readonly [number, number] {
    return [this.#row, Math.min(this.#column, this.columns - 1)];
  }

  write(text: string): this {
    const whole = this.#rest + text;
    // biome-ignore lint/suspicious/noControlCharactersInRegex: a sequence that the next piece completes
    const cut = /\u001b(\[[0-?]*|[P_][^\u001b]*\u001b?)?$/.exec(whole)?.index ?? whole.length;
    this.#rest = whole.slice(cut);
    for (const [, parameters = '', final, control, printable] of whole.slice(0, cut).matchAll(tokens)) {
      if (final) this.#sequence(parameters, final);
      else if (control) this.#control(control);
      else for (const { segment } of graphemes.segment(printable ?? '')) this.#put(segment);
    }
    return this;
  }

  /** Changes the width of the screen and wraps its rows again, as tmux and most terminals do. */
  resize(columns: number): void {
    const rows: Row[] = [];
    let cursor: [number, number] = [0, 0];
    for (let at = 0; at < this.#rows.length; at += 1) {
      const cells: string[] = [];
      let offset: number | null = null;
      for (let more = true; more; at += 1) {
        const row = this.#rows[at] ?? emptyRow();
        if (at === this.#row) offset = cells.length + this.#column;
        cells.push(...row.cells);
        more = row.isWrapped;
      }
      at -= 1;
      const first = rows.length;
      do {
        const isWrapped = cells.length > columns;
        rows.push({ cells: cells.splice(0, columns), isWrapped });
      } while (cells.length > 0);
      if (offset !== null) {
        const down = Math.min(Math.floor(offset / columns), rows.length - 1 - first);
        cursor = [first + down, Math.min(offset - down * columns, columns)];
      }
    }
    this.#rows = rows;
    [this.#row, this.#column] = cursor;
    this.columns = columns;
  }

  #put(character: string): void {
    const width = stringWidth(character);
    if (width === 0) return;
    if (this.#column + width > this.columns && !this.#wraps) {
      this.#column = this.columns - width;
    } else if (this.#column + width > this.columns) {
      this.#current.isWrapped = true;
      this.#down();
      this.#column = 0;
    }
    this.#fill(this.#column);
    this.#current.cells.splice(this.#column, width, character, ...Array(width - 1).fill(''));
    this.#column += width;
  }

  #control(control: string): void {
    if (control === '\r') this.#column = 0;
    else if (control === '\n') this.#down();
    else if (control === '\b') this.#column = Math.max(this.cursor[1] - 1, 0);
    else if (control === '\t')
      this.#column = Math.min((Math.floor(this.#column / 8) + 1) * 8, this.columns - 1);
    else if (control !== '\u0007') throw new Error(`A terminal got ${JSON.stringify(control)}`);
  }

  #sequence(parameters: string, final: string): void {
    const count = Number(parameters || 1);
    const [, column] = this.cursor;
    const isQuestion = final === 'c' || (final === 't' && parameters === '16');
    if (final === 'm' || isQuestion || /^\?(25|2026)$/.test(parameters)) return;
    if (parameters === '?7') this.#wraps = final === 'h';
    else if (final === 'A') this.#row = Math.max(this.#row - count, 0);
    else if (final === 'B') for (let at = 0; at < count; at += 1) this.#down();
    else if (final === 'C') this.#column = Math.min(column + count, this.columns - 1);
    else if (final === 'D') this.#column = Math.max(column - count, 0);
    else if (final === 'G') this.#column = Math.min(count, this.columns) - 1;
    else if (final === 'K') this.#deleteInRow(parameters);
    else if (final === 'J' && (parameters === '' || parameters === '0')) {
      if (this.#row === 0 && column === 0) this.#keepAll();
      this.#deleteInRow('');
      this.#rows.length = this.#row + 1;
    } else throw new Error(`A terminal got the sequence ${parameters}${final}`);
  }

  /** As in tmux, moves the rows above the screen before deleting all of it. */
  #keepAll(): void {
    const kept = this.#rows.filter(({ cells }) => cells.length > 0);
    this.#row = kept.length;
    this.#rows = [...kept, emptyRow()];
  }

  #deleteInRow(parameters: string): void {
    const [, column] = this.cursor;
    const { cells } = this.#current;
    if (parameters === '1') cells.fill(blank, 0, column + 1);
    else cells.length = parameters === '2' ? 0 : Math.min(column, cells.length);
    this.#current.isWrapped = false;
  }

  get #current(): Row {
    this.#rows[this.#row] ??= emptyRow();
    return this.#rows[this.#row] as Row;
  }

  #fill(column: number): void {
    const { cells } = this.#current;
    while (cells.length < column) cells.push(blank);
  }

  #down(): void {
    this.#row += 1;
    this.#rows[this.#row] ??= emptyRow();
  }
}
