import type { Reporter } from '../../../src/client/reporter.js';
import type { Submission } from '../../../src/client/submission.js';
import { unknownTerms } from '../../../src/client/submit/preflight.js';
import {
  type SentFiles,
  type Staged,
  sentFilesOf,
  stage as stageFound,
} from '../../../src/client/submit/staging.js';
import type { DeidentifyChoice, Outgoing } from '../../../src/imaging/deidentify/index.js';
import { type FindOptions, type FoundFiles, findFiles } from '../../../src/imaging/inputs/index.js';

/** Sends files as they are. */
export const asTheyAre: DeidentifyChoice = {
  ...{ mode: null, isRefused: false, allowed: [], configDir: '/dev/null/nowhere', profile: 'default' },
};

/** Finds and packs the files of a submission, for a server that says nothing of itself. */
export async function stage(
  submission: Submission,
  reporter: Reporter,
  signal?: AbortSignal,
  finding: FindOptions = {},
  outgoingOf: (found: FoundFiles) => Outgoing | null = () => null,
): Promise<Staged & { readonly sending: SentFiles }> {
  const onRead = (done: number, total: number) => reporter.progress('Reading', done, total);
  const found = await findFiles(submission, { ...finding, onRead });
  const staged = await stageFound(submission, found, unknownTerms, outgoingOf(found), reporter, signal);
  return { ...staged, sending: sentFilesOf(found) };
}
