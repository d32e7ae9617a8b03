import path from 'node:path';
import { byName, monotonicTime, sharedMode, writeTextFile } from '../../files/index.js';
import { tableCell } from '../case-table.js';
import { tableName } from '../earlier-results.js';
import { WriteError } from '../errors.js';
import type { FoundCase } from '../found-files.js';
import { goOnLater } from './failures.js';
import { type CaseState, type CaseStatus, type CohortWatcher, isOver, newState } from './state.js';

/** Shortest time between two writings, in milliseconds. */
const writeEvery = 1000;

/** Most columns for numbers, so that the table of thousands of cases stays one that can be opened. */
const maxColumns = 500;

/** The columns for numbers: those of most cases, if there are too many, in the order in which they come. */
function columnsOf(states: readonly CaseState[]): {
  readonly columns: readonly string[];
  readonly left: number;
} {
  const counts = new Map<string, number>();
  for (const { numbers } of states)
    for (const column of Object.keys(numbers)) counts.set(column, (counts.get(column) ?? 0) + 1);
  const all = [...counts.keys()];
  if (all.length <= maxColumns) return { columns: all, left: 0 };
  const kept = new Set(
    [...counts]
      .sort(([, a], [, b]) => b - a)
      .slice(0, maxColumns)
      .map(([column]) => column),
  );
  return { columns: all.filter((column) => kept.has(column)), left: all.length - maxColumns };
}

/**
 * Writes the table anew: a row for each case, the subject and the session where a case has them, and a column for each number
 * that any has.
 * @returns how many columns are left out
 */
function writeTable(file: string, states: readonly CaseState[]): number {
  const { columns, left } = columnsOf(states);
  const entities = (['subject', 'session'] as const).filter((each) =>
    states.some((state) => state[each] !== null),
  );
  const heading = ['case', 'status', 'reason', 'version', 'seconds', 'job', ...entities, ...columns];
  const line = (cells: readonly (string | number | null)[]) => `${cells.map(tableCell).join(',')}\r\n`;
  const lines = states.map((state) =>
    line([
      state.name,
      isOver(state) ? state.status : 'waiting',
      state.reason,
      state.version,
      state.seconds,
      state.jobId,
      ...entities.map((each) => state[each]),
      ...columns.map((column) => state.numbers[column] ?? null),
    ]),
  );
  writeTextFile(file, line(heading) + lines.join(''), { mode: sharedMode });
  return left;
}

/** How far the cases have come: told to the person, and written to `cases.csv` as cases end. */
export class CaseTable {
  readonly file: string;
  readonly #states: Map<string, CaseState>;
  #writtenAt = 0;
  #isOld = true;
  #leftColumns = 0;

  /**
   * @param others cases of earlier commands whose rows stay
   * @param directory that of the results
   * @param onFault called if the table cannot be written
   */
  constructor(
    cases: readonly Pick<FoundCase, 'name' | 'subject' | 'session'>[],
    private readonly others: readonly CaseState[],
    directory: string,
    private readonly watcher: CohortWatcher,
    private readonly onFault: (error: WriteError) => void,
  ) {
    this.file = path.join(directory, tableName);
    this.#states = new Map(
      cases.map(({ name, subject, session }) => [name, { ...newState, name, subject, session }]),
    );
  }

  get states(): CaseState[] {
    return [...this.#states.values()];
  }

  with(status: CaseStatus): CaseState[] {
    return this.states.filter((each) => each.status === status);
  }

  change(name: string, change: Partial<CaseState>): void {
    const state = this.#states.get(name);
    if (!state) return;
    const changed = { ...state, ...change };
    this.#states.set(name, changed);
    this.watcher.changed(changed);
    this.#isOld = true;
    if (isOver(changed) && monotonicTime() - this.#writtenAt >= writeEvery) this.write();
  }

  /** How many columns of numbers the table has no room for. */
  get leftColumns(): number {
    return this.#leftColumns;
  }

  /** Writes what has changed. */
  write(): void {
    if (!this.#isOld) return;
    this.#isOld = false;
    try {
      const all = [...this.states, ...this.others];
      if (this.others.length > 0) all.sort((a, b) => byName(a.name, b.name));
      this.#leftColumns = writeTable(this.file, all);
    } catch (cause) {
      this.onFault(new WriteError(this.file, cause, goOnLater));
    }
    // From its end: a large table on a slow disk takes a while itself.
    this.#writtenAt = monotonicTime();
  }
}
