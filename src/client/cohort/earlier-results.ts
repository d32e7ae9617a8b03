import { counted, oneLine, quoteName, quotePath, someOf } from '../../contract/index.js';
import type { CaseRecord, Computation } from '../case/index.js';
import type { InputLookup } from '../case-names.js';
import { readCaseTable } from '../case-table.js';
import { UsageError } from '../errors.js';
import { labelOf } from '../found-files.js';
import type { PlacedRecord } from './bids-layout.js';
import type { CasePlace } from './put-in-place.js';
import type { ResultsDirectory } from './results-directory.js';
import { type CaseState, newState, shortVersion } from './table.js';

/**
 * What the table says of a result that is there.
 * @param compared the comparison with its record, if it was made already
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
    ...(changed.length > 0 ? [`A person has changed ${some(changed)}`] : []),
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
    version: record.app_version,
    seconds: record.seconds,
    jobId: record.job_id,
    edited: [...changed, ...beside],
    numbers: record.numbers,
  };
}

const isGone = 'Its input no longer exists';

/**
 * The rows of earlier commands for cases that this one does not have: those with a result, and those that failed or were not
 * computed. Where the input no longer exists, the row says so.
 */
export async function otherRows(
  results: ResultsDirectory,
  records: readonly PlacedRecord[],
  names: ReadonlySet<string>,
  inputs: InputLookup,
): Promise<CaseState[]> {
  const rows = new Map(readCaseTable(results.directory).map((row) => [row.name, row]));
  const entitiesOf = (name: string) => {
    const row = rows.get(oneLine(name));
    return {
      subject: row?.subject || labelOf(name, 'sub'),
      session: row?.session || labelOf(name, 'ses'),
    };
  };
  const states: CaseState[] = [];
  for (const { name, record, place } of records) {
    if (names.has(name)) continue;
    const state = await stateOfResult(results, place, record);
    const orphaned = inputs.has(name)
      ? {}
      : { status: 'orphaned' as const, reason: [isGone, state.reason].filter(Boolean).join('; ') };
    states.push({ name, ...entitiesOf(name), isNew: false, ...state, ...orphaned });
  }
  const known = new Set([...names, ...states.map(({ name }) => name)].map((name) => oneLine(name)));
  for (const { name, status, reason, job } of rows.values()) {
    if (known.has(name) || !(status === 'failed' || status === 'waiting')) continue;
    const isMarked = inputs.has(name) || reason.startsWith(isGone);
    const why = isMarked ? reason : [isGone, reason].filter(Boolean).join('; ');
    states.push({ ...newState, name, ...entitiesOf(name), status, reason: why || null, jobId: job || null });
  }
  return states;
}

/** @throws UsageError for a directory with results of another app or operation: nobody could tell them apart later */
export function refuseOtherApp(
  root: string,
  records: readonly PlacedRecord[],
  { app, operation }: Pick<Computation, 'app' | 'operation'>,
): void {
  const other = records.find(({ record }) => record.app !== app || record.operation !== operation)?.record;
  if (other)
    throw new UsageError(
      `${quotePath(root)} has results of ${quoteName(other.app)} (${other.operation}), and this is ${quoteName(app)} (${operation}): ` +
        'name another directory with -o',
    );
}

/**
 * The error for results that another version of the app made.
 * @param now its version
 * @param earlier the versions of the results that other versions made
 */
export function upgraded(app: string, now: string, earlier: readonly string[]): UsageError {
  const { length: count } = earlier;
  const versions = [...new Set(earlier)].map(shortVersion);
  return new UsageError(
    `The app ${quoteName(app)} is version ${shortVersion(now)} now, and ${counted(count, 'result')} here ${count === 1 ? 'is' : 'are'} of ` +
      `version ${someOf(versions)}: give --force to compute the old cases again, or --keep-version to keep them and compute the others`,
  );
}

/** @throws UsageError if results of cases whose input exists were made by another version of the app than the server has now */
export function refuseOtherVersion(
  records: readonly PlacedRecord[],
  { app, version }: Pick<Computation, 'app' | 'version'>,
  exists: (name: string) => boolean,
): void {
  if (version === null) return;
  const earlier = records
    .filter(({ name }) => exists(name))
    .flatMap(({ record }) => record.app_version ?? [])
    .filter((each) => each !== version);
  if (earlier.length > 0) throw upgraded(app, version, earlier);
}
