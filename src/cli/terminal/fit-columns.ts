import stringWidth from 'fast-string-width';
import { cutMiddle } from './cut-text.js';
import type { Cell } from './format.js';

/** How a table gives way on a narrow terminal. */
export interface Narrowing {
  /** Columns with names of any length, which are cut before a column goes. */
  readonly names: readonly string[];
  /** Columns that it does without, the least important one first. */
  readonly dispensable: readonly string[];
}

/** Columns of the screen that a name keeps. */
const narrowestName = 10;
/** Blanks between two columns, as `formatTable` writes them. */
const gap = 2;

interface Table {
  readonly heading: readonly string[];
  readonly rows: readonly (readonly Cell[])[];
}

const textOf = (cell: Cell): string => (typeof cell === 'string' ? cell : cell.text);

function without({ heading, rows }: Table, column: number): Table {
  const others = <T>(cells: readonly T[]) => cells.filter((_, index) => index !== column);
  return { heading: others(heading), rows: rows.map(others) };
}

/** The widths of the columns, the widest names of which are cut until the table fits; null if it does not fit. */
function widthsWithin({ heading, rows }: Table, names: readonly string[], columns: number): number[] | null {
  const widths = heading.map((title, column) =>
    rows.reduce((width, row) => Math.max(width, stringWidth(textOf(row[column] ?? ''))), title.length),
  );
  let excess = widths.reduce((sum, width) => sum + width + gap, -gap) - columns;
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
 * A table that fits a terminal: names are cut in their middle, and the least important columns are left out.
 * @param columns of the terminal; undefined if it is none: then nothing is cut
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
