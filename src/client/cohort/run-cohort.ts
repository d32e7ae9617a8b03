import path from 'node:path';
import { monotonicTime } from '../../files/index.js';
import { computationOf, findInputs } from '../case/index.js';
import { InputLookup } from '../case-names.js';
import {
  type AppAnswer,
  app as askApp,
  backoff,
  type Connection,
  pause,
  untilAnswered,
} from '../connection/index.js';
import { HttpError, isTransient, writing } from '../errors.js';
import type { Reporter } from '../reporter.js';
import type { Submission } from '../submission.js';
import { preflight } from '../submit/index.js';
import {
  bidsPlace,
  checkBidsCases,
  checkDerivatives,
  checkLayout,
  describeDerivatives,
  recordsOfBids,
  recordsOfDirectories,
} from './bids-layout.js';
import type { CohortOptions } from './case-run.js';
import { Cohort, type CohortSummary } from './cohort.js';
import { otherRows, refuseOtherApp, refuseOtherVersion } from './earlier-results.js';
import { numberedCases } from './neutral-numbers.js';
import { directoryPlace } from './put-in-place.js';
import { goOnLater, ResultsDirectory } from './results-directory.js';

/** Seconds to wait for the version of an app, which the server computes when it is first asked. */
const versionWait = 60;
/** Seconds for a question that a cohort can go on without. */
const maxWait = 30;

/** The description of an app, with its version if the server has one. A server that cannot describe it may run it all the same. */
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
          // Without the version, every case would have another key: nothing is concluded from a server that is away.
          if (error instanceof HttpError && !isTransient(error)) return null;
          throw error;
        },
      );
      // Null is a version that is being computed; a server without versions leaves it out.
      if (!view?.available || view.version !== null || monotonicTime() > end) return view;
      reporter.waiting(`Waiting for the version of ${app}`);
      await pause(backoff(round, 200, 2000), connection.signal);
    }
  } finally {
    reporter.waiting(null);
  }
}

/**
 * Runs one job for each case, and fetches each result into its place, with its record. A case that an earlier command finished is left
 * as it is. A failed case does not stop the others.
 * @throws UsageError for what cannot be sent, and for results of another app or version; the error that would be that of every case,
 * such as a full disk; the reason of an interruption. The same command goes on after each
 */
export async function runCohort(
  connection: Connection,
  submission: Submission,
  options: CohortOptions,
): Promise<CohortSummary> {
  const { output, layout } = options;
  const root = path.resolve(output);
  checkLayout(output, layout);
  if (layout === 'bids') checkDerivatives(output, submission.app);
  const terms = await preflight(connection, submission);
  const app = await describeApp(connection, submission.app, options.reporter);
  const finding = {
    ...options,
    ...{ place: { directory: output, mayReplace: true }, isEach: true, isListed: true },
    signal: connection.signal,
  };
  const { cases, notes, volumes } = await findInputs(options.imaging, submission, finding, async () => app);
  for (const note of notes) options.reporter.note(note);
  // Tells of earlier cases whether their inputs exist, also if they were not chosen now.
  const inputs = new InputLookup(volumes[0]?.groups[0] ?? []);
  if (layout === 'bids') checkBidsCases(root, submission.app, cases);
  const preparation = await options.imaging.prepare(
    cases.map(({ files }) => files),
    { ...options, requiresDeidentified: terms.requiresDeidentified, server: connection.server },
    options.reporter,
  );
  using results = await writing(output, goOnLater, () => ResultsDirectory.open(output));
  const records = [...(layout === 'bids' ? recordsOfBids(root) : recordsOfDirectories(root))];
  const computation = computationOf(submission, app, preparation.note);
  refuseOtherApp(output, records, computation);
  const names = cases.map(({ name }) => name);
  const isAsked = new Set(names);
  if (!options.keepsVersion && !options.isForced)
    refuseOtherVersion(records, computation, (name) => isAsked.has(name) || inputs.has(name));
  if (layout === 'bids')
    await writing(output, goOnLater, async () => describeDerivatives(output, submission.app, app, options));
  const numbers = await writing(output, goOnLater, async () =>
    preparation.note ? numberedCases(output, names, { isWritten: true }) : new Map<string, number>(),
  );
  const cohort = new Cohort({
    ...{ connection, submission, options, cases, results, terms, app, computation },
    ...{ preparation, numbers, records },
    others: await otherRows(results, records, isAsked, inputs),
    placeOf: (found) =>
      layout === 'bids' ? bidsPlace(root, submission.app, found) : directoryPlace(root, found.name),
  });
  // Awaited here: the directory is locked until the function returns.
  return await cohort.run();
}
