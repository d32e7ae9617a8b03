import path from 'node:path';
import { oneLine, quoteName, quotePath } from '../../contract/index.js';
import { monotonicTime } from '../../files/index.js';
import { type Computation, computationOf } from '../case/index.js';
import { InputLookup } from '../case-names.js';
import {
  type AppAnswer,
  app as askApp,
  backoff,
  type Connection,
  pause,
  untilAnswered,
} from '../connection/index.js';
import { readCaseTable } from '../csv.js';
import { HttpError, isTransient, UsageError, withWriteErrors } from '../errors.js';
import { labelOf } from '../found-files.js';
import type { Reporter } from '../reporter.js';
import type { Submission } from '../submission.js';
import { preflight } from '../submit/index.js';
import { BidsLayout, checkLayout, recordsOfBids } from './bids-layout.js';
import { directoryPlace, type PlacedRecord, recordsOfDirectories } from './case-place.js';
import type { CohortOptions } from './case-run.js';
import { Cohort, type CohortSummary } from './cohort.js';
import { upgraded } from './failures.js';
import { numberedCases } from './neutral-numbers.js';
import { goOnLater, ResultsDirectory } from './results-directory.js';
import { type CaseState, newState, stateOfResult } from './table.js';

/** Maximum wait for the version of an app, in seconds. The server computes it on first request. */
const versionWait = 60;
/** Maximum time for a request that a cohort can do without, in seconds. */
const maxWait = 30;

/** The description of an app, with its version if the server has versions. A server may run an app that it cannot describe. */
async function describeApp(
  connection: Connection,
  app: string,
  reporter: Reporter,
): Promise<AppAnswer | null> {
  const end = monotonicTime() + versionWait * 1000;
  try {
    for (let round = 0; ; round += 1) {
      const ask = () => askApp(connection, app, maxWait);
      const view = await untilAnswered(connection, connection.patience(reporter), ask).catch(
        (error: unknown) => {
          // Without the version, every case would have another key, so an unreachable server is not treated as one without
          // versions.
          if (error instanceof HttpError && !isTransient(error)) return null;
          throw error;
        },
      );
      // A null version is still being computed; a server without versions leaves it out.
      if (!view?.available || view.version !== null || monotonicTime() > end) return view;
      reporter.waiting(`Waiting for the version of ${app}`);
      await pause(backoff(round, 200, 2000), connection.signal);
    }
  } finally {
    reporter.waiting(null);
  }
}

const inputNotFound = 'Its input was not found';

/**
 * The rows for cases that only earlier commands had: those with a result, and those that failed or were not computed. A row says
 * if its input was not found.
 */
async function otherRows(
  results: ResultsDirectory,
  records: readonly PlacedRecord[],
  names: ReadonlySet<string>,
  exists: (name: string) => boolean,
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
    const orphaned = exists(name)
      ? {}
      : { status: 'orphaned' as const, reason: [inputNotFound, state.reason].filter(Boolean).join('; ') };
    states.push({ name, ...entitiesOf(name), isNew: false, ...state, ...orphaned });
  }
  const known = new Set([...names, ...states.map(({ name }) => name)].map((name) => oneLine(name)));
  for (const { name, status, reason, job } of rows.values()) {
    if (known.has(name) || !(status === 'failed' || status === 'waiting')) continue;
    const isMarked = exists(name) || reason.startsWith(inputNotFound);
    const why = isMarked ? reason : [inputNotFound, reason].filter(Boolean).join('; ');
    states.push({ ...newState, name, ...entitiesOf(name), status, reason: why || null, jobId: job || null });
  }
  return states;
}

/** @throws UsageError for a directory with results of another app or operation, which could not be told apart later */
function refuseOtherApp(
  root: string,
  records: readonly PlacedRecord[],
  { app, operation }: Computation,
): void {
  const other = records.find(({ record }) => record.app !== app || record.operation !== operation)?.record;
  if (other)
    throw new UsageError(
      `${quotePath(root)} has results of ${quoteName(other.app)} (${other.operation}), and this is ${quoteName(app)} (${operation}): ` +
        'name another directory with -o',
    );
}

/**
 * @throws UsageError if results of cases with existing inputs were made by a version of the app other than the server's current
 *   one
 */
function refuseOtherVersion(
  records: readonly PlacedRecord[],
  { app, app_version: version }: Computation,
  exists: (name: string) => boolean,
): void {
  if (version === null) return;
  const earlier = records
    .filter(({ name }) => exists(name))
    .flatMap(({ record }) => record.app_version ?? [])
    .filter((each) => each !== version);
  if (earlier.length > 0) throw upgraded(app, version, earlier);
}

/**
 * Runs one job for each case, and puts each result, with its record, in its place. Cases that an earlier command finished are
 * left unchanged. A failed case does not stop the others.
 * @throws UsageError for inputs that cannot be sent, and for results of another app or version; an error that would affect
 *   every case, such as a full disk; the reason of an interruption. In each case, the same command can be repeated to continue
 */
export async function runCohort(
  connection: Connection,
  submission: Submission,
  options: CohortOptions,
): Promise<CohortSummary> {
  const { output, layout } = options;
  const root = path.resolve(output);
  checkLayout(output, layout);
  const bids = layout === 'bids' ? new BidsLayout(root, submission.app) : null;
  bids?.checkDirectory();
  const terms = await preflight(connection, submission, options.reporter);
  const app = await describeApp(connection, submission.app, options.reporter);
  const finding = {
    ...options,
    ...{ output: { directory: output, mayReplace: true }, isEach: true, isListed: true },
    describeApp: async () => app,
    signal: connection.signal,
  };
  const { cases, omitted, notes, volumes } = await options.imaging.find(submission, finding);
  for (const note of notes) options.reporter.note(note);
  // Also looks for cases that only earlier commands had, so that the table marks those whose input is gone.
  const inputs = new InputLookup(volumes[0]?.groups[0] ?? []);
  bids?.checkCases(cases);
  const preparation = await options.imaging.prepare(
    cases.map(({ files }) => files),
    { ...options, requiresDeidentified: terms.requiresDeidentified, server: connection.server },
    options.reporter,
  );
  using results = await withWriteErrors(output, goOnLater, () => ResultsDirectory.open(output));
  const records = [...(bids ? recordsOfBids(root) : recordsOfDirectories(root))];
  const computation = computationOf(submission, app, preparation.note, options.clientVersion);
  refuseOtherApp(output, records, computation);
  const names = cases.map(({ name }) => name);
  const isAsked = new Set(names);
  const exists = (name: string) => isAsked.has(name) || (inputs.has(name) && !omitted.includes(name));
  if (!options.keepsVersion && !options.isForced) refuseOtherVersion(records, computation, exists);
  await withWriteErrors(output, goOnLater, async () => bids?.describe(app, options.clientVersion));
  const numbers = await withWriteErrors(output, goOnLater, async () =>
    preparation.note ? numberedCases(output, names, { isWritten: true }) : new Map<string, number>(),
  );
  const cohort = new Cohort({
    ...{ connection, submission, options, cases, results, terms, computation },
    ...{ preparation, numbers, records },
    currentVersion: async () => {
      const view = await describeApp(connection, submission.app, options.reporter);
      return view?.available ? view.version : null;
    },
    others: await otherRows(results, records, isAsked, exists),
    placeOf: (found) => bids?.placeOf(found) ?? directoryPlace(root, found.name),
  });
  // Awaited here: the directory is locked until the function returns.
  return await cohort.run();
}
