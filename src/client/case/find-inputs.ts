import type { AppAnswer } from '../connection/index.js';
import type { FoundFiles } from '../found-files.js';
import type { Submission } from '../submission.js';
import type { Finding, Imaging } from './imaging.js';

/**
 * Finds the files of a submission.
 * @param describeApp asked only if the files leave a question; null if the server does not describe the app
 * @throws UsageError for paths without anything to send, and for files that cannot be sent; the reason of the signal
 */
export const findInputs = (
  { find }: Pick<Imaging, 'find'>,
  submission: Pick<Submission, 'operation' | 'files' | 'archive' | 'allFiles' | 'selection'>,
  finding: Finding,
  describeApp: () => Promise<AppAnswer | null>,
): Promise<FoundFiles> =>
  find(submission, {
    ...finding,
    takesSegmentations: async (group) => {
      // Other operations work on what an app has segmented.
      if (submission.operation.paths !== 'inputs') return true;
      const view = await describeApp();
      return view?.available === true && Object.values(view.inputs)[group]?.volume_type === 'SEGMENTATION';
    },
  });
