import { statSync } from 'node:fs';
import path from 'node:path';
import { tableName } from '../../contract/index.js';
import { monotonicTime, writeTextFile } from '../../files/index.js';
import { WriteError } from '../errors.js';
import type { CaseState, CaseStatus, CohortWatcher } from './state.js';

/** Shortest time between two writings, in milliseconds. */
const writeEvery = 1000;

/** A cell: quoted where it has to be, as in RFC 4180, and on one line. */
function cell(value: string | number | null): string {
  if (typeof value === 'number') return String(value);
  // A spreadsheet would compute what begins like a formula, and a file name may begin like one.
  const text = (value ?? '').replaceAll(/\s*[\r\n]+\s*/g, ' ').replace(/^(?=[=+@-])/, "'");
  return /[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Writes the table anew: a row for each case, and a column for each number that any of them has. */
function writeTable(file: string, states: readonly CaseState[]): void {
  const columns = [...new Set(states.flatMap(({ numbers }) => Object.keys(numbers)))];
  const heading = ['case', 'status', 'reason', 'seconds', 'job', ...columns];
  const line = (cells: readonly (string | number | null)[]) => `${cells.map(cell).join(',')}\r\n`;
  const lines = states.map(({ name, status, reason, seconds, jobId, numbers }) =>
    line([
      name,
      status === 'done' || status === 'failed' ? status : 'waiting',
      reason,
      seconds,
      jobId,
      ...columns.map((column) => numbers[column] ?? null),
    ]),
  );
  // Whoever may read the directory may read the table.
  const mode = statSync(path.dirname(file)).mode & 0o666;
  const [uid, gid] = [process.getuid?.() ?? 0, process.getgid?.() ?? 0];
  writeTextFile(file, line(heading) + lines.join(''), { like: { mode, uid, gid } });
}

/** How far the cases have come: told to the person, and written to `cases.csv` as cases end. */
export class CaseTable {
  readonly file: string;
  readonly #states: Map<string, CaseState>;
  #writtenAt = 0;
  #isOld = true;

  /**
   * @param directory that of the results
   * @param onFault called if the table cannot be written
   */
  constructor(
    names: readonly string[],
    directory: string,
    private readonly watcher: CohortWatcher,
    private readonly onFault: (error: WriteError) => void,
  ) {
    this.file = path.join(directory, tableName);
    const none = {
      status: 'waiting',
      reason: null,
      seconds: null,
      jobId: null,
      isNew: false,
      numbers: {},
    } as const;
    this.#states = new Map(names.map((name) => [name, { name, ...none }]));
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
    const isOver = changed.status === 'done' || changed.status === 'failed';
    if (isOver && monotonicTime() - this.#writtenAt >= writeEvery) this.write();
  }

  /** Writes what has changed. */
  write(): void {
    if (!this.#isOld) return;
    this.#writtenAt = monotonicTime();
    this.#isOld = false;
    try {
      writeTable(this.file, this.states);
    } catch (cause) {
      this.onFault(new WriteError(this.file, cause, 'run the command again'));
    }
  }
}
