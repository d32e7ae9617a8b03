import {
  type Connection,
  jobs as listJobs,
  type Patience,
  remove,
  untilAnswered,
} from '../../client/connection/index.js';
import { type HttpError, isExpiredJob, isUnknownJob, UsageError } from '../../client/errors.js';
import type { Reporter } from '../../client/reporter.js';
import { counted, isFinal, type RemovedJob } from '../../contract/index.js';
import type { JobsOutput } from '../command/index.js';
import { type JobFailure, tellFailure } from './each-job.js';
import { noJobs, tagged } from './job-text.js';

export interface RemovalSummary {
  /** One entry for each job, in the order in which they were named. */
  readonly jobs: readonly (RemovedJob | JobFailure)[];
}

/**
 * Whether the server says that a job is gone. A server that does not remember removed jobs says that the job is unknown; this
 * counts only after a request that may have removed the job.
 */
const isGone = (error: unknown, mayBeDone: boolean): error is HttpError =>
  isExpiredJob(error) || (mayBeDone && isUnknownJob(error) && !error.isOfProxy);

/** Removes a job. A job that is already gone counts as removed, so that requests and scripts can be repeated. */
async function removeJob(
  connection: Connection,
  id: string,
  patience: Patience,
  reporter: Reporter,
): Promise<RemovedJob> {
  return untilAnswered(connection, patience, async (mayBeDone) => {
    try {
      return await remove(connection, id);
    } catch (error) {
      if (!isGone(error, mayBeDone)) throw error;
      if (!mayBeDone) reporter.note(error.message);
      return { job_id: id, status: 'removed' };
    }
  });
}

/**
 * The jobs that a command line selects: the named ones, or the ended jobs with a tag.
 * @throws UsageError unless exactly one of both is given, and for a tag without jobs
 */
export async function jobsToRemove(
  connection: Connection,
  named: readonly string[],
  tag: string | undefined,
  reporter: Reporter,
): Promise<readonly string[]> {
  if (tag === undefined) {
    if (named.length > 0) return named;
    throw new UsageError('Name the jobs, or give --tag');
  }
  if (named.length > 0) throw new UsageError('Name jobs or give --tag, not both');
  const all = await listJobs(connection, { tag });
  if (all.length === 0) throw new UsageError(noJobs(connection.server, undefined, tag));
  const ended = all.filter(({ status }) => isFinal(status)).map((job) => job.job_id);
  const active = all.length - ended.length;
  const rest = active > 0 ? `; ${counted(active, 'active job')} ${active === 1 ? 'stays' : 'stay'}` : '';
  reporter.note(`Removing ${counted(ended.length, 'job')}${tagged(tag)}${rest}`);
  return ended;
}

/**
 * Removes jobs that have ended, one after the other. If one cannot be removed, that is reported, and the next one is tried. The
 * exit code is the highest among the jobs.
 * @throws the reason of an interruption
 */
export async function removeJobs(
  connection: Connection,
  ids: readonly string[],
  reporter: Reporter,
  output: JobsOutput,
): Promise<RemovalSummary> {
  const patience = connection.patience(reporter);
  const jobs: (RemovedJob | JobFailure)[] = [];
  for (const id of ids) {
    try {
      jobs.push(await removeJob(connection, id, patience, reporter));
      await output.print(`${id}  removed`);
    } catch (error) {
      connection.signal?.throwIfAborted();
      jobs.push(await tellFailure(id, error as Error, output));
    }
  }
  return { jobs };
}
