import path from 'node:path';
import { type EarlierRow, readCaseTable } from '../../client/csv.js';
import { oneLine } from '../../contract/index.js';
import { byName, foldedName, isDirectory, namesIn } from '../../files/index.js';
import type { Draft } from '../matching/index.js';
import type { CaseToShow } from './case-to-show.js';

/** A row of a table of cases. */
export interface TableRow extends EarlierRow {
  /** The directory of the table. */
  readonly table: string;
}

/** The rows of the tables in these directories and their immediate subdirectories. */
export function rowsOf(paths: readonly string[]): TableRow[] {
  const directories = paths.map((each) => path.resolve(each)).filter(isDirectory);
  const below = directories.flatMap((each) => namesIn(each).map((name) => path.join(each, name)));
  return [...new Set([...directories, ...below])].flatMap((table) =>
    readCaseTable(table).map((row) => ({ ...row, table })),
  );
}

/** What the table says of a case, in a sentence. */
function noteOf({ status, reason }: TableRow): string | null {
  if (status === 'waiting') return 'It is not computed yet';
  if (status === 'failed') return `It failed${reason === '' ? '' : `: ${reason}`}`;
  return reason === '' ? null : reason;
}

/**
 * Adds to the cases what the tables say about them, and the table cases that have nothing to draw. Marks from the page may be
 * joined with the table, so the page has to include every row.
 */
export function withRows(
  cases: readonly CaseToShow[],
  drafts: readonly Draft[],
  rows: readonly TableRow[],
): CaseToShow[] {
  if (rows.length === 0) return [...cases];
  const told = new Set<TableRow>();
  const known = cases.map((each, at) => {
    const { inTables = [] } = drafts[at] ?? {};
    // A case without a table is joined by its own name, with a row of any table.
    const own = (inTables.length > 0 ? inTables : [null]).flatMap((place) => {
      const isOf = (row: TableRow) =>
        foldedName(row.name) === foldedName(oneLine(place?.name ?? each.name)) &&
        (!place || place.table === row.table);
      const row = rows.find((candidate) => isOf(candidate) && !told.has(candidate));
      if (row) told.add(row);
      return row ?? [];
    });
    const [row] = own;
    if (!row) return each;
    const notes = own.flatMap((of) => noteOf(of) ?? []);
    return { ...each, name: row.name, status: row.status, notes: [...notes, ...each.notes] };
  });
  const others = rows
    .filter((row) => !told.has(row))
    .map((row): CaseToShow => {
      const note = noteOf(row) ?? 'Its result has no volume that can be drawn';
      return {
        name: row.name,
        status: row.status,
        scan: null,
        masks: [],
        maps: [],
        notes: [note],
        recorded: null,
      };
    });
  return others.length === 0 ? known : [...known, ...others].sort((a, b) => byName(a.name, b.name));
}
