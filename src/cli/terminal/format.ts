import stringWidth from 'fast-string-width';
import { excerpt } from '../../contract/index.js';
import type { OutputStream } from './command-io.js';
import { cutMiddle } from './cut-text.js';

/** Used and total memory, in GB as the service counts them. */
export const formatMemory = (use: { used_gb: number; total_gb: number }): string =>
  `${use.used_gb.toFixed(1)} of ${use.total_gb.toFixed(1)} GB`;

/** Maximum length of a value next to a name, in characters. */
const maxValueLength = 4000;

/** Separator between two columns of a table. */
const gap = '  ';

/** Maximum width of a table cell, in characters: one long name would widen every row. */
const widest = 80;

/** A text, optionally with a colour. Colours inside text from outside are not shown. */
export type Cell = string | { readonly text: string; readonly paint: (text: string) => string };

/** A cell on one line, cut and painted. */
function shown(cell: Cell, maxLength: number): string {
  return typeof cell === 'string' ? excerpt(cell, maxLength) : cell.paint(excerpt(cell.text, maxLength));
}

/** Pads a text to a number of terminal columns: some characters take two of them, colours none. */
const padded = (text: string, width: number): string => text + ' '.repeat(width - stringWidth(text));

/**
 * Formats rows below a heading, with aligned columns. Cells may come from outside, so each is put on one line, and cut.
 * @returns lines without trailing blanks
 */
export function formatTable(heading: readonly string[], rows: readonly (readonly Cell[])[]): string[] {
  const all = [heading, ...rows].map((row) => row.map((cell) => shown(cell, widest)));
  const widths = heading.map((_, column) =>
    all.reduce((width, row) => Math.max(width, stringWidth(row[column] ?? '')), 0),
  );
  return all.map((row) =>
    row
      .map((cell, column) => padded(cell, widths[column] ?? 0))
      .join(gap)
      .trimEnd(),
  );
}

/** How a table is narrowed to fit a terminal. */
export interface Narrowing {
  /** Columns with names of any length. They are cut before other columns are dropped. */
  readonly names: readonly string[];
  /** Columns that can be dropped, least important first. */
  readonly dispensable: readonly string[];
}

/** Minimum width of a cut name, in columns. */
const narrowestName = 10;
interface Table {
  readonly heading: readonly string[];
  readonly rows: readonly (readonly Cell[])[];
}

const textOf = (cell: Cell): string => (typeof cell === 'string' ? cell : cell.text);

function without({ heading, rows }: Table, column: number): Table {
  const others = <T>(cells: readonly T[]) => cells.filter((_, index) => index !== column);
  return { heading: others(heading), rows: rows.map(others) };
}

/** The column widths at which the table fits, with the widest names cut; null if it cannot fit. */
function widthsWithin({ heading, rows }: Table, names: readonly string[], columns: number): number[] | null {
  const widths = heading.map((title, column) =>
    rows.reduce((width, row) => Math.max(width, stringWidth(textOf(row[column] ?? ''))), title.length),
  );
  let excess = widths.reduce((sum, width) => sum + width + gap.length, -gap.length) - columns;
  for (; excess > 0; excess -= 1) {
    const [widest] = heading
      .flatMap((title, column) => (names.includes(title) ? [column] : []))
      .sort((a, b) => (widths[b] ?? 0) - (widths[a] ?? 0));
    if (widest === undefined || (widths[widest] ?? 0) <= narrowestName) return null;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
  return widths;
}

/**
 * Fits a table to a terminal: names are cut in the middle, and the least important columns are dropped.
 * @param columns of the terminal; undefined if the output is not a terminal, in which case nothing is cut
 */
export function fitted(table: Table, narrowing: Narrowing, columns: number | undefined): Table {
  if (columns === undefined) return table;
  const widths = widthsWithin(table, narrowing.names, columns);
  if (widths !== null) {
    const cut = (cell: Cell, width: number) => (typeof cell === 'string' ? cutMiddle(cell, width) : cell);
    return {
      ...table,
      rows: table.rows.map((row) => row.map((cell, column) => cut(cell, widths[column] ?? 0))),
    };
  }
  const least = narrowing.dispensable.find((title) => table.heading.includes(title));
  return least === undefined
    ? table
    : fitted(without(table, table.heading.indexOf(least)), narrowing, columns);
}

/** The width to which lines are wrapped; undefined if the stream is not a terminal. */
export const columnsOf = ({ isTTY, columns = 0 }: OutputStream): number | undefined =>
  isTTY && columns > 0 ? columns : undefined;

/** Minimum number of columns for wrapping. Below that, wrapping is left to the terminal. */
const narrowest = 20;

/**
 * Wraps a text to this many columns, with indented continuation lines. Words are not split.
 * @param columns Infinity or undefined if nothing is to be wrapped
 */
export function wrapped(line: string, columns = Number.POSITIVE_INFINITY, indent = 0): string[] {
  if (columns - indent < narrowest || stringWidth(line) <= columns) return [line];
  const [start = ''] = /^ */.exec(line) ?? [];
  const lines: string[] = [];
  let current = start;
  let isEmpty = true;
  for (const word of line.trim().split(' ')) {
    if (!isEmpty && stringWidth(current) + 1 + stringWidth(word) > columns) {
      lines.push(current);
      current = ' '.repeat(indent);
      isEmpty = true;
    }
    current += isEmpty ? word : ` ${word}`;
    isEmpty = false;
  }
  return [...lines, current];
}

/**
 * Names and values, one pair per line, with values aligned. Pairs without a value are left out. Values may come from outside, so
 * each is put on one line, or wrapped next to its name.
 * @param columns of the terminal, if values without colours are wrapped
 */
export function formatPairs(pairs: readonly (readonly [string, Cell | null])[], columns?: number): string[] {
  const known = pairs.filter((pair): pair is readonly [string, Cell] => pair[1] !== null && pair[1] !== '');
  const width = Math.max(0, ...known.map(([name]) => name.length));
  return known.flatMap(([name, value]) => {
    const line = `${name.padEnd(width)}  ${shown(value, maxValueLength)}`;
    return typeof value === 'string' ? wrapped(line, columns, width + 2) : [line];
  });
}
