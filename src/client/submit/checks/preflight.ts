import { fieldWithRole, type Operation } from '../../../contract/operations.js';
import type { Connection, LimitsAnswer } from '../../connection/index.js';
import { limits } from '../../connection/index.js';
import type { Submission } from '../submission.js';
import { checkApp } from './check-app.js';
import { checkGpus } from './check-gpus.js';
import { checkSizes, type SizeCheck } from './check-sizes.js';
import { checkTimes } from './check-times.js';
import { ifItCanSay, patience } from './if-it-can-say.js';

/** Seconds that a job is kept after its end, unless the command says for how long: a laptop may be closed overnight. */
const day = 86_400;
/** Seconds in which a command that reaches its server again asks for the result. */
const margin = 60;

/**
 * The field that has a server keep a job for a day, or for as long as the command waits for a server that is away, if that
 * is longer. None where the server does not say how long it keeps a job at most: it may not know the field.
 * @param longestOutage in seconds
 */
function keptForADay(
  operation: Operation,
  longestOutage: number,
  { max_keep: most }: LimitsAnswer,
): Readonly<Record<string, string>> {
  if (most === null) return {};
  const wanted = Math.max(day, Math.ceil(longestOutage) + margin);
  return { [fieldWithRole(operation, 'keep').name]: String(Math.min(wanted, most)) };
}

/** What a server's limits mean for a submission that it can take. */
export interface Clearance {
  /** Checks files, some of which are packed later. */
  readonly checkSizes: SizeCheck;
  /** Fields to send where the submission does not set them. */
  readonly fields: Readonly<Record<string, string>>;
}

/**
 * Checks a submission against what the server says of itself before anything is packed or sent: GPUs, the app, limits. What
 * the server does not say is not checked: it decides when it has the submission.
 * @returns what else its limits mean
 * @throws ClientError for the first thing that cannot be right
 */
export async function preflight(connection: Connection, submission: Submission): Promise<Clearance> {
  const [known] = await Promise.all([
    ifItCanSay(connection, () => limits(connection, patience)),
    checkApp(connection, submission),
    checkGpus(connection, submission),
  ]);
  if (!known) return { checkSizes: () => {}, fields: {} };
  const { server, longestOutage } = connection;
  checkTimes(submission, known, server);
  return {
    checkSizes: (files) => checkSizes(files, known, server),
    fields: keptForADay(submission.operation, longestOutage, known),
  };
}
