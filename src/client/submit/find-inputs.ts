import { type FindOptions, type FoundFiles, findFiles } from '../../imaging/inputs/index.js';
import type { AppAnswer } from '../connection/index.js';
import type { Reporter } from '../reporter.js';
import type { Submission } from '../submission.js';

/**
 * Finds the files of a submission.
 * @param describeApp asked only if the files leave a question; null if the server does not describe the app
 * @param signal ends the reading of many files
 * @throws UsageError for paths without anything to send, and for files that cannot be sent; the reason of the signal
 */
export const findInputs = (
  submission: Pick<Submission, 'operation' | 'files' | 'archive' | 'allFiles' | 'selection'>,
  finding: Pick<FindOptions, 'place' | 'chooseSeries' | 'isEach' | 'skipsIncomplete'>,
  reporter: Reporter,
  describeApp: () => Promise<AppAnswer | null>,
  signal?: AbortSignal,
): Promise<FoundFiles> =>
  findFiles(submission, {
    ...finding,
    asksForSegmentations: async (group) => {
      if (submission.operation.paths !== 'inputs') return true;
      const view = await describeApp();
      return view?.available === true && Object.values(view.inputs)[group]?.volume_type === 'SEGMENTATION';
    },
    onRead: (done, total) => {
      signal?.throwIfAborted();
      reporter.progress('Reading', done, total);
    },
  });
