import { limits } from '../../connection/api.js';
import type { Connection } from '../../connection/connection.js';
import type { Submission } from '../submission.js';
import { checkApp } from './check-app.js';
import { checkGpus } from './check-gpus.js';
import { checkSizes, type SizeCheck } from './check-sizes.js';
import { checkTimes } from './check-times.js';
import { ifItCanSay, patience } from './if-it-can-say.js';

/**
 * Checks a submission against what the server says of itself before anything is packed or sent: GPUs, the app, limits. What
 * the server does not say is not checked: it decides when it has the submission.
 * @returns the check of the sizes, for files that are packed later
 * @throws ClientError for the first thing that cannot be right
 */
export async function preflight(connection: Connection, submission: Submission): Promise<SizeCheck> {
  const [known] = await Promise.all([
    ifItCanSay(connection, () => limits(connection, patience)),
    checkApp(connection, submission),
    checkGpus(connection, submission),
  ]);
  if (known) checkTimes(submission, known, connection.server);
  return known ? (files) => checkSizes(files, known, connection.server) : () => {};
}
