import type { Finding } from '../../../src/client/case/index.js';
import type { FoundFiles } from '../../../src/client/found-files.js';
import type { DeidentifyChoice, Outgoing } from '../../../src/client/outgoing.js';
import type { Reporter } from '../../../src/client/reporter.js';
import type { Submission } from '../../../src/client/submission.js';
import {
  type SentFiles,
  type Staged,
  sentFilesOf,
  stage as stageFound,
} from '../../../src/client/submit/staging.js';
import { findFiles } from '../../../src/imaging/inputs/index.js';
import { unknownTerms } from './terms.js';

/** Sends files as they are. */
export const asTheyAre: DeidentifyChoice = {
  ...{ mode: null, isRefused: false, allowed: [], configDir: '/dev/null/nowhere', profile: 'default' },
};

/** Finds and packs the files of a submission, for a server that says nothing of itself. */
export async function stage(
  submission: Submission,
  reporter: Reporter,
  signal?: AbortSignal,
  finding: Partial<Finding> = {},
  outgoingOf: (found: FoundFiles) => Outgoing | null = () => null,
): Promise<Staged & { readonly sending: SentFiles }> {
  const found = await findFiles(submission, { ...finding, reporter });
  const work = { submission, found, terms: unknownTerms, outgoing: outgoingOf(found) };
  const staged = await stageFound(work, reporter, signal);
  return { ...staged, sending: sentFilesOf(found) };
}
