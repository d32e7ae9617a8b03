import { type Connection, type JobAnswer, job } from '../../client/connection/index.js';
import type { Reporter } from '../../client/reporter.js';
import type { Submission } from '../../client/submission.js';
import { fieldWithRole, maxDuration } from '../../contract/index.js';
import { keptUntil } from '../command/index.js';
import { keptAfterEnd } from './job-text.js';

/** Maximum wait for the answer, in seconds. The command has done its work, so waiting longer is not worth it. */
const longestWait = 10;

/** How long a server keeps a job, as `--json` prints it. */
export interface Kept {
  /** Seconds after the job ends; null if the server does not say. */
  readonly keep: number | null;
  /** ISO 8601; null until the job has ended. */
  readonly expires_at: string | null;
}

/** Asks for a submission that nobody waits for to be kept as long as the server allows, unless it requests a time itself. */
export function keptForLong<T extends Pick<Submission, 'operation' | 'fields'>>(submission: T): T {
  const { name } = fieldWithRole(submission.operation, 'keep');
  return { ...submission, fields: { [name]: maxDuration, ...submission.fields } };
}

/** How long a job is kept; null if the server does not say. */
function keptWords(view: JobAnswer, now: number): string | null {
  const until = keptUntil(view.expires_at, now);
  return until === null ? keptAfterEnd(view) : `until ${until}`;
}

/**
 * Reports how long the server says it keeps a job, because KonfAI's server ignores the requested time. Never throws.
 * @param isAsked whether a time was requested, so that a missing answer is worth a note
 * @returns the job as the server reports it; null if the server does not answer
 */
export async function tellKept(
  connection: Connection,
  jobId: string,
  reporter: Reporter,
  isAsked: boolean,
): Promise<JobAnswer | null> {
  const view = await job(connection, jobId, longestWait).catch(() => null);
  const words = view && keptWords(view, connection.now());
  if (words) reporter.note(`Job ${jobId} is kept ${words}`);
  else if (view && isAsked) {
    reporter.note(
      `${connection.server} does not say how long it keeps job ${jobId}; fetch its result soon after it ends`,
    );
  }
  return view;
}

/** The part of an answer that `--json` prints. */
export const keptOf = (view: JobAnswer | null): Kept => ({
  keep: view?.keep ?? null,
  expires_at: view?.expires_at ?? null,
});
