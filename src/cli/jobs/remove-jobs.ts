import type { Connection } from '../../client/connection/connection.js';
import { HttpError } from '../../client/errors.js';
import type { Reporter } from '../../client/reporter.js';
import { errorKinds } from '../../contract/errors.js';
import type { RemovedJob } from '../../contract/job.js';
import { type JobFailure, type JobsOutput, tellFailure } from '../each-job.js';

export interface RemovalSummary {
  /** One entry for each job, in the order in which they were named. */
  readonly jobs: readonly (RemovedJob | JobFailure)[];
}

/** Removes a job. One that is gone already counts as removed, so that a script can be run again. */
async function removeJob(connection: Connection, id: string, reporter: Reporter): Promise<RemovedJob> {
  const { remove } = await import('../../client/connection/api.js');
  try {
    return await remove(connection, id);
  } catch (error) {
    if (!(error instanceof HttpError) || error.status !== errorKinds.expired.status) throw error;
    reporter.note(error.message);
    return { job_id: id, status: 'removed' };
  }
}

/**
 * Removes jobs that have ended, one after the other. If one cannot be removed, that is reported, and the next one is tried.
 * The command then exits with the highest of their exit codes.
 * @throws the reason of an interruption
 */
export async function removeJobs(
  connection: Connection,
  ids: readonly string[],
  reporter: Reporter,
  output: JobsOutput,
): Promise<RemovalSummary> {
  const jobs: (RemovedJob | JobFailure)[] = [];
  for (const id of ids) {
    try {
      jobs.push(await removeJob(connection, id, reporter));
      await output.print(`${id}  removed`);
    } catch (error) {
      connection.signal?.throwIfAborted();
      jobs.push(await tellFailure(id, error as Error, output));
    }
  }
  return { jobs };
}
