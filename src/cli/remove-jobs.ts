import type { Connection } from '../client/connection/connection.js';
import { HttpError } from '../client/errors.js';
import type { Reporter } from '../client/reporter.js';
import { errorKinds } from '../contract/errors.js';
import type { RemovedJob } from '../contract/job.js';
import type { ErrorDocument } from './base-command.js';

/** A job that could not be removed, and why. */
type Failure = { readonly job_id: string } & ErrorDocument;

export interface RemovalSummary {
  /** One entry for each job, in the order in which they were named. */
  readonly jobs: readonly (RemovedJob | Failure)[];
}

export interface RemovalOutput {
  readonly reporter: Reporter;
  /** Prints the line of a job that is removed. */
  readonly print: (line: string) => Promise<void>;
  /** What the document of `--json` says of an error. */
  readonly explain: (error: Error) => ErrorDocument;
  /** Whether that document is printed at the end: then it alone tells of the errors. */
  readonly json: boolean;
}

/** Removes a job. One that is gone already counts as removed, so that a script can be run again. */
async function removeJob(connection: Connection, id: string, reporter: Reporter): Promise<RemovedJob> {
  const { remove } = await import('../client/connection/api.js');
  try {
    return await remove(connection, id);
  } catch (error) {
    if (!(error instanceof HttpError) || error.status !== errorKinds.expired.status) throw error;
    reporter.note(error.message);
    return { job_id: id, status: 'removed' };
  }
}

/**
 * Removes jobs that have ended, one after the other. One that cannot be removed is told of, and the next one's turn comes.
 * The command then exits with the highest of their exit codes.
 * @throws the reason of an interruption
 */
export async function removeJobs(
  connection: Connection,
  ids: readonly string[],
  { reporter, print, explain, json }: RemovalOutput,
): Promise<RemovalSummary> {
  const { tellError } = await import('./tell-error.js');
  const jobs: (RemovedJob | Failure)[] = [];
  for (const id of ids) {
    try {
      jobs.push(await removeJob(connection, id, reporter));
      await print(`${id}  removed`);
    } catch (error) {
      connection.signal?.throwIfAborted();
      const failure = { job_id: id, ...explain(error as Error) };
      if (!json) tellError(`${id}: ${failure.error.message}`, []);
      process.exitCode = Math.max(Number(process.exitCode ?? 0), failure.error.exitCode);
      jobs.push(failure);
    }
  }
  return { jobs };
}
