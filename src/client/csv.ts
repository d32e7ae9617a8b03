import path from 'node:path';
import { oneLine } from '../contract/index.js';
import { readSmallFile } from '../files/index.js';
import { tableName } from './output-names.js';

/** How the cells of CSV are written, and the rows of `cases.csv` read. */

/** Largest table that is read, in bytes. */
const maxTable = 32 << 20;

/** Where a spreadsheet begins a cell, also one that takes semicolons or tabs for its separators, and would compute it. */
const formula = /(^|[;\t])([^\S\r\n]*)(?=[=+@-])/g;

/** A cell: quoted where it has to be, as in RFC 4180, on one line and without what a terminal acts upon. */
export function tableCell(value: string | number | null): string {
  if (typeof value === 'number') return String(value);
  const text = oneLine((value ?? '').replaceAll(/\s*[\r\n]+\s*/g, ' ').replaceAll(formula, "$1$2'"));
  return /[",;]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** The cells of CSV, as in RFC 4180. */
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

/** A cell without the sign that keeps spreadsheets from computing it. */
const plainCell = (cell: string): string => cell.replaceAll(/(^|[;\t]\s*)'(?=[=+@-])/g, '$1');

/** What a row of a table says of a case. An empty text is what the row, or the table, does not say. */
export interface EarlierRow {
  readonly name: string;
  readonly status: string;
  readonly reason: string;
  readonly job: string;
  readonly subject: string;
  readonly session: string;
}

/** The rows of the table in a directory; empty if there is none that can be read. */
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
