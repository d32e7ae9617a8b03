import path from 'node:path';
import { counted, oneLine, quoteName, someOf } from '../../contract/index.js';
import { byName, monotonicTime, sharedMode, writeTextFile } from '../../files/index.js';
import type { CaseRecord } from '../case/index.js';
import { tableCell } from '../csv.js';
import { WriteError } from '../errors.js';
import type { FoundCase } from '../found-files.js';
import { tableName } from '../output-names.js';
import type { Reporter } from '../reporter.js';
import type { CasePlace } from './case-place.js';
import { goOnLater, type ResultsDirectory } from './results-directory.js';

/**
 * The state of a case. `waiting` also means that the command ended before the turn of the case; `orphaned` is a result of an
 * earlier command whose input was not found.
 */
export type CaseStatus =
  | 'waiting'
  | 'reading'
  | 'sending'
  | 'running'
  | 'fetching'
  | 'done'
  | 'failed'
  | 'orphaned';

/** Whether a case has reached its final state. */
export const isOver = ({ status }: Pick<CaseState, 'status'>): boolean =>
  status === 'done' || status === 'failed' || status === 'orphaned';

/** The current state of a case. */
export interface CaseState {
  readonly name: string;
  /** The labels of `sub-` and `ses-` in the paths of its files, as in BIDS; null without one. */
  readonly subject: string | null;
  readonly session: string | null;
  readonly status: CaseStatus;
  /** Why the case failed, or what to know about its result. */
  readonly reason: string | null;
  /** The kind of the job's error, such as `out-of-memory`; null if there is no error, or it has no specific kind. */
  readonly kind: string | null;
  /** The version of the app that made its result; null if there is none, or the server does not say. */
  readonly version: string | null;
  /** How long its job ran. */
  readonly seconds: number | null;
  readonly jobId: string | null;
  /** Whether the result comes from this command, not an earlier one. */
  readonly isNew: boolean;
  /** Files of the result, or beside it, that the user has edited. */
  readonly edited: readonly string[];
  readonly numbers: Readonly<Record<string, number>>;
}

/** A case of which only the name is known. */
export const newState = {
  ...{ status: 'waiting', reason: null, kind: null, version: null, seconds: null, jobId: null, isNew: false },
  ...{ edited: [], numbers: {} },
} as const satisfies Partial<CaseState>;

/**
 * The table's facts about an existing result.
 * @param compared the comparison with its record, if already made
 */
export async function stateOfResult(
  results: ResultsDirectory,
  place: CasePlace,
  record: CaseRecord,
  compared = results.compare(place, record),
): Promise<Omit<CaseState, 'name' | 'subject' | 'session' | 'isNew'>> {
  const { changed } = await compared;
  const beside = record.edited.map(({ name }) => name).filter((name) => results.has(place, name));
  const some = (names: readonly string[]) =>
    quoteName(names[0] ?? '') + (names.length > 1 ? ` and ${counted(names.length - 1, 'other file')}` : '');
  const about = [
    ...(changed.length > 0 ? [`Edited by a person: ${some(changed)}`] : []),
    ...(beside.length > 0 ? [`A person changed ${some(beside)} of an earlier result`] : []),
  ];
  return {
    status: 'done',
    reason:
      [
        ...about,
        ...record.inputs_remarks,
        ...record.numbers_unread,
        ...(record.conversion?.problems ?? []),
      ].join('; ') || null,
    kind: null,
    version: record.app_version,
    seconds: record.seconds,
    jobId: record.job_id,
    edited: [...changed, ...beside],
    numbers: record.numbers,
  };
}

/** Shows progress to the user. */
export interface CohortWatcher {
  /** The reporter for one case: its transfers, and its job's log. */
  reporterOf(name: string): Reporter;
  /** Called with all cases before the first one is sent. */
  began(states: readonly CaseState[]): void;
  /** Called whenever something about a case has changed. */
  changed(state: CaseState): void;
}

/** A version of an app, short enough for a sentence. */
export const shortVersion = (version: string): string =>
  quoteName(version.replace(/^sha256:/, '').slice(0, 12));

/** How many results each version of the app made; empty if one made all of them. */
function mixedVersions(states: readonly CaseState[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { version } of states) if (version !== null) counts.set(version, (counts.get(version) ?? 0) + 1);
  return counts.size > 1 ? counts : new Map();
}

/** Minimum time between two writes, in milliseconds. */
const writeEvery = 1000;

/** Maximum number of columns for numbers, so that a table of thousands of cases can still be opened. */
const maxColumns = 500;

/** The columns for numbers, in order of appearance; if there are too many, those that most cases have. */
function columnsOf(states: readonly CaseState[]): {
  readonly columns: readonly string[];
  readonly omitted: number;
} {
  const counts = new Map<string, number>();
  for (const { numbers } of states)
    for (const column of Object.keys(numbers)) counts.set(column, (counts.get(column) ?? 0) + 1);
  const all = [...counts.keys()];
  if (all.length <= maxColumns) return { columns: all, omitted: 0 };
  const kept = new Set(
    [...counts]
      .sort(([, a], [, b]) => b - a)
      .slice(0, maxColumns)
      .map(([column]) => column),
  );
  return { columns: all.filter((column) => kept.has(column)), omitted: all.length - maxColumns };
}

/** Reason given for a result if most results in the table come from another version of the app. */
const otherVersion = 'It was made by another version of the app than most rows';

/**
 * Rewrites the table: a row for each case, columns for subject and session if any case has them, and a column for each number.
 * @returns the number of columns left out
 */
function writeTable(file: string, states: readonly CaseState[]): number {
  const { columns, omitted } = columnsOf(states);
  const entities = (['subject', 'session'] as const).filter((each) =>
    states.some((state) => state[each] !== null),
  );
  const heading = ['case', 'status', 'reason', 'version', 'seconds', 'job', ...entities, ...columns];
  const line = (cells: readonly (string | number | null)[]) => `${cells.map(tableCell).join(',')}\r\n`;
  const [usual] = [...mixedVersions(states)].sort(([, a], [, b]) => b - a);
  const reasonOf = ({ reason, version }: CaseState) =>
    usual && version !== null && version !== usual[0]
      ? [reason, otherVersion].filter(Boolean).join('; ')
      : reason;
  const lines = states.map((state) =>
    line([
      state.name,
      isOver(state) ? state.status : 'waiting',
      reasonOf(state),
      state.version,
      state.seconds,
      state.jobId,
      ...entities.map((each) => state[each]),
      ...columns.map((column) => state.numbers[column] ?? null),
    ]),
  );
  writeTextFile(file, line(heading) + lines.join(''), { mode: sharedMode });
  return omitted;
}

/** The progress of the cases: shown to the user, and written to `cases.csv` as cases end. */
export class CaseTable {
  readonly file: string;
  readonly #states: Map<string, CaseState>;
  #writtenAt = 0;
  #isDirty = true;
  #omittedColumns = 0;

  /**
   * @param others cases of earlier commands whose rows are kept
   * @param directory for the results
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

  inState(status: CaseStatus): CaseState[] {
    return this.states.filter((each) => each.status === status);
  }

  change(name: string, change: Partial<CaseState>): void {
    const state = this.#states.get(name);
    if (!state) return;
    const changed = { ...state, ...change };
    this.#states.set(name, changed);
    this.watcher.changed(changed);
    this.#isDirty = true;
    // The caller writes the last change, at the end.
    if (isOver(changed) && monotonicTime() - this.#writtenAt >= writeEvery) this.write();
  }

  /** What the user should know about the table as last written. */
  get notes(): string[] {
    const without = this.others.filter(({ jobId, status }) => jobId === null || status === 'failed');
    const names = someOf(without.map(({ name }) => oneLine(name)));
    const versions = [...mixedVersions([...this.states, ...this.others])].map(
      ([version, count]) => `${shortVersion(version)} (${counted(count, 'row')})`,
    );
    return [
      ...(versions.length > 0
        ? [`${tableName} has results of ${versions.length} versions of the app: ${someOf(versions)}`]
        : []),
      ...(this.#omittedColumns > 0
        ? [
            `${tableName} has no column for ${counted(this.#omittedColumns, 'number')} that few cases have; the records have them`,
          ]
        : []),
      ...(without.length > 0
        ? [
            `${tableName} keeps ${counted(without.length, 'row')} of earlier commands without a result: ${names}`,
          ]
        : []),
    ];
  }

  /** Writes the table if it has changed. */
  write(): void {
    if (!this.#isDirty) return;
    this.#isDirty = false;
    try {
      const all = [...this.states, ...this.others];
      if (this.others.length > 0) all.sort((a, b) => byName(a.name, b.name));
      this.#omittedColumns = writeTable(this.file, all);
    } catch (cause) {
      this.onFault(new WriteError(this.file, cause, goOnLater));
    }
    // Measured from the end of the write, because writing a large table to a slow disk takes a while.
    this.#writtenAt = monotonicTime();
  }
}
