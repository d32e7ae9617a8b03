import path from 'node:path';
import { oneLine } from '../contract/index.js';
import { readSmallFile } from '../files/index.js';
import { tableName } from './output-names.js';

/** Writes CSV cells, and reads the rows of `cases.csv`. */

/** Maximum size of a table, in bytes. */
const maxTable = 32 << 20;

/** Places where a spreadsheet would start to compute a formula, also if it uses semicolons or tabs as separators. */
const formula = /(^|[;\t])([^\S\r\n]*)(?=[=+@-])/g;

/** Formats a cell: quoted if necessary, as in RFC 4180, on one line and without control characters that a terminal acts upon. */
export function tableCell(value: string | number | null): string {
  if (typeof value === 'number') return String(value);
  const text = oneLine((value ?? '').replaceAll(/\s*[\r\n]+\s*/g, ' ').replaceAll(formula, "$1$2'"));
  return /[",;]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Parses CSV, as in RFC 4180. */
function readCsv(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  for (const [, quoted, plain = '', end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
    row.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (end === ',') continue;
    if (row.length > 1 || row[0] !== '') rows.push(row);
    row = [];
    if (end === '') break;
  }
  return rows;
}

/** The text of a cell without the sign that keeps spreadsheets from computing it. */
const plainCell = (cell: string): string => cell.replaceAll(/(^|[;\t]\s*)'(?=[=+@-])/g, '$1');

/** A row of a table from an earlier command. A text is empty if the row, or the table, does not contain it. */
export interface EarlierRow {
  readonly name: string;
  readonly status: string;
  readonly reason: string;
  readonly job: string;
  readonly subject: string;
  readonly session: string;
}

/** The rows of the table in a directory; empty if there is no readable table. */
export function readCaseTable(directory: string): EarlierRow[] {
  try {
    const [heading = [], ...rows] = readCsv(readSmallFile(path.join(directory, tableName), maxTable));
    const columns = new Map(heading.map((column, at) => [column, at]));
    if (!columns.has('case') || !columns.has('status')) return [];
    const of = (row: readonly string[], column: string) => plainCell(row[columns.get(column) ?? -1] ?? '');
    return rows.map((row) => ({
      name: of(row, 'case'),
      status: of(row, 'status'),
      reason: of(row, 'reason'),
      job: of(row, 'job'),
      subject: of(row, 'subject'),
      session: of(row, 'session'),
    }));
  } catch {
    return [];
  }
}
