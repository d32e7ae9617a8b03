import { monotonicTime } from '../../files/index.js';
import { findInputs } from '../case/index.js';
import { InputLookup } from '../case-names.js';
import {
  type AppAnswer,
  app as askApp,
  backoff,
  type Connection,
  pause,
  untilAnswered,
} from '../connection/index.js';
import { HttpError, isTransient } from '../errors.js';
import type { FoundCase } from '../found-files.js';
import type { Reporter } from '../reporter.js';
import type { Submission } from '../submission.js';
import type { CohortOptions } from './state.js';

/** Seconds to wait for the version of an app, which the server computes when it is first asked. */
const versionWait = 60;
/** Seconds for a question that a cohort can go on without. */
const maxWait = 30;

/** The cases of a submission. */
export interface FoundCases {
  readonly cases: readonly FoundCase[];
  /** Tells of earlier cases whether their inputs exist, also if they were not chosen now. */
  readonly inputs: InputLookup;
}

/**
 * Finds the files of a submission, and divides them into cases.
 * @param view the description of the app, if the server gave one
 * @throws UsageError for what cannot be sent, and for files that cannot be paired
 */
export async function findCasesToSend(
  submission: Pick<Submission, 'operation' | 'files' | 'archive' | 'allFiles' | 'selection'>,
  options: Pick<CohortOptions, 'imaging' | 'output' | 'chooseSeries' | 'reporter' | 'skipsIncomplete'>,
  view: AppAnswer | null = null,
  signal?: AbortSignal,
): Promise<FoundCases> {
  const { imaging, output, chooseSeries, reporter, skipsIncomplete } = options;
  const finding = {
    place: { directory: output, mayReplace: true },
    chooseSeries,
    isEach: true,
    isListed: true,
    skipsIncomplete,
    ...{ reporter, signal },
  };
  const { cases, notes, volumes } = await findInputs(imaging, submission, finding, async () => view);
  for (const note of notes) reporter.note(note);
  return { cases, inputs: new InputLookup(volumes[0]?.groups[0] ?? []) };
}

/** The description of an app, with its version if the server has one. A server that cannot describe it may run it all the same. */
export async function describeApp(
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
