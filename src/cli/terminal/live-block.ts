import stringWidth from 'fast-string-width';
import type { OutputStream } from './command-io.js';
import { forTerminal } from './terminal-text.js';

const esc = '\u001b[';
/** Terminals that support this show everything in between at once, without flicker; others ignore it. */
const [beginUpdate, endUpdate] = [`${esc}?2026h`, `${esc}?2026l`];
/** With wrapping off, long lines are cut by the terminal, so each takes one row. */
const [cutLines, wrapLines] = [`${esc}?7l`, `${esc}?7h`];
const clearRest = `${esc}K`;
const clearBelow = `${esc}J`;
const up = (rows: number): string => (rows > 0 ? `\r${esc}${rows}A` : '\r');

/** Lines that are redrawn in place on a terminal. Only changes are written. */
export class LiveBlock {
  #lines: readonly string[] = [];
  #columns = 0;

  constructor(private readonly stream: OutputStream) {}

  /** Replaces the lines shown. The last row says how many do not fit on the screen. */
  draw(lines: readonly string[]): void {
    const { columns = 0, rows } = this.stream;
    const available = Math.max(2, (rows || 24) - 1);
    const hidden = lines.length > available ? lines.length - available + 1 : 0;
    const shown = hidden > 0 ? [...lines.slice(0, available - 1), `... and ${hidden} lines more`] : lines;
    const safe = shown.map((line) => forTerminal(line).replaceAll('\n', ' '));
    const isResized = this.#columns !== columns;
    const isSame = safe.length === this.#lines.length && safe.every((line, row) => line === this.#lines[row]);
    if (isSame && !isResized) return;
    const body = safe.map((line, row) =>
      !isResized && line === this.#lines[row] ? '\r\n' : `${line}${clearRest}\r\n`,
    );
    const below = safe.length < this.#lines.length || isResized ? clearBelow : '';
    this.stream.write(
      beginUpdate + cutLines + up(this.#rows(columns)) + body.join('') + below + wrapLines + endUpdate,
    );
    this.#lines = safe;
    this.#columns = columns;
  }

  /** The rows that the lines currently take: a terminal that has become narrower has wrapped them. */
  #rows(columns: number): number {
    if (columns >= this.#columns) return this.#lines.length;
    const rowsOf = (line: string) => Math.ceil(Math.min(stringWidth(line), this.#columns) / columns) || 1;
    return this.#lines.reduce((rows, line) => rows + rowsOf(line), 0);
  }
}
