import { excerpt } from '../contract/quote.js';

/** Used and total memory, in GB as the service counts them. */
export const formatMemory = (use: { used_gb: number; total_gb: number }): string =>
  `${use.used_gb.toFixed(1)} of ${use.total_gb.toFixed(1)} GB`;

/** Longest value beside a name, in characters. */
const longestValue = 4000;

/** Widest cell of a table, in characters: one long name would widen every row. */
const widest = 80;

/**
 * Rows under a heading, columns aligned. Cells may come from outside: each is put on one line, and cut.
 * @returns lines without trailing blanks
 */
export function formatTable(heading: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const all = [heading, ...rows].map((row) => row.map((cell) => excerpt(cell, widest)));
  const widths = heading.map((_, column) =>
    all.reduce((width, row) => Math.max(width, row[column]?.length ?? 0), 0),
  );
  return all.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}

/**
 * Names and values, one pair a line, values aligned. Pairs without a value are left out. Values may come from outside: each
 * is put on one line.
 */
export function formatPairs(pairs: readonly (readonly [string, string | null])[]): string[] {
  const shown = pairs.filter((pair): pair is readonly [string, string] => pair[1] !== null && pair[1] !== '');
  const width = Math.max(0, ...shown.map(([name]) => name.length));
  return shown.map(([name, value]) => `${name.padEnd(width)}  ${excerpt(value, longestValue)}`);
}
