import {
  askFailure,
  backoff,
  type Connection,
  failureIn,
  type JobAnswer,
  job,
  jobs as listJobs,
  pause,
  progressOf,
} from '../../client/connection/index.js';
import { ClientError, isTransient, UsageError } from '../../client/errors.js';
import type { Reporter } from '../../client/reporter.js';
import { exitCodes, isFinal, type JobState } from '../../contract/index.js';
import { monotonicTime } from '../../files/index.js';
import type { JobsOutput } from '../command/index.js';
import type { ErrorDocument } from '../terminal/index.js';
import { tellFailure } from './each-job.js';
import { endLine, noJobs } from './job-text.js';

/** How a wait for a job ended. */
interface WaitedJob {
  readonly job_id: string;
  /** Null if it is not known. */
  readonly status: JobState | null;
  /** Why there is no result, or why the wait ended before the job did. */
  readonly error: ErrorDocument['error'] | null;
  readonly exit_code: number;
}

export interface WaitSummary {
  /** One entry for each job, in the order in which they were named. */
  readonly jobs: readonly WaitedJob[];
}

interface WaitForJobs {
  readonly ids: readonly string[];
  /** Maximum wait for all jobs together, in seconds; undefined for no limit. */
  readonly timeout: number | undefined;
  readonly output: JobsOutput;
  readonly reporter: Reporter;
}

/**
 * The jobs that a command line selects: the named ones, or all jobs with its tags, ended or not, oldest first.
 * @throws UsageError for both, and for a tag without jobs
 */
export async function jobsToWaitFor(
  connection: Connection,
  named: readonly string[],
  tags: readonly string[],
): Promise<readonly string[]> {
  if (tags.length === 0) return named;
  if (named.length > 0) throw new UsageError('Name jobs or give --tag, not both');
  const found: string[] = [];
  for (const tag of tags) {
    const ids = (await listJobs(connection, { tag })).map((job) => job.job_id).reverse();
    if (ids.length === 0)
      throw new UsageError(
        `${noJobs(connection.server, undefined, tag)}; '${connection.nextCommand('jobs')}' lists all`,
      );
    found.push(...ids);
  }
  return found;
}

/** Maximum and minimum pause between two rounds of requests, in milliseconds. */
const [longestPause, shortestPause] = [2000, 200];

/**
 * Waits until these jobs have ended, and prints a line for each one when it does. Asks for one job after the other, to keep the
 * load on the server low. The exit code is the highest among the jobs.
 * @throws the reason of an interruption, which does not end the jobs
 */
export async function waitForJobs(
  connection: Connection,
  { ids, timeout, output, reporter }: WaitForJobs,
): Promise<WaitSummary> {
  const deadline = monotonicTime() + (timeout === undefined ? Number.POSITIVE_INFINITY : timeout * 1000);
  const left = () => deadline - monotonicTime();
  const patience = connection.patience(reporter);
  const { io } = output;
  /** Ids of the jobs that have not ended. */
  const pending = new Set(ids);
  const views = new Map<string, JobAnswer>();
  const over = new Map<string, WaitedJob>();

  const end = (id: string, error: WaitedJob['error']) => {
    const exit_code = error?.exit_code ?? exitCodes.done;
    over.set(id, { job_id: id, status: views.get(id)?.status ?? null, error, exit_code });
    pending.delete(id);
    // Removes the spinner, so that the next output does not appear beside it.
    reporter.waiting(null);
  };

  /** A job has ended. The answer to the request for the result also says whether the app refused the input. */
  const ended = async (view: JobAnswer) => {
    const { job_id: id, status } = view;
    const failure =
      status === 'done' ? null : ((await askFailure(connection, id)) ?? failureIn(connection, view));
    const error = failure && output.explain(failure).error;
    end(id, error);
    io.exitWithWorst(error?.exit_code ?? exitCodes.done);
    await output.print(endLine(view, io.colours(io.stdout)));
  };

  /** Gives up waiting for some jobs. */
  const lost = async (jobs: Iterable<string>, errorOf: (id: string) => Error) => {
    reporter.waiting(null);
    for (const id of jobs) end(id, (await tellFailure(id, errorOf(id), output)).error);
  };

  /** Handles a failed request. */
  const onError = async (id: string, error: Error) => {
    connection.signal?.throwIfAborted();
    // A server that has never answered is not retried.
    if (!connection.isMet) return lost(pending, () => error);
    if (!isTransient(error)) return lost([id], () => error);
    if (left() > 0) {
      await patience.after(error, left()).catch((reason: Error) => {
        connection.signal?.throwIfAborted();
        return lost([id], () => reason);
      });
    }
  };

  try {
    for (let round = 0; ; round += 1) {
      for (const id of pending) {
        // The last request is made when the time is up, so it must be answered quickly.
        const limit = timeout === undefined ? undefined : Math.max(1, left() / 1000);
        const answer = await job(connection, id, limit).catch((error: Error) => error);
        if (answer instanceof Error) {
          await onError(id, answer);
          continue;
        }
        patience.renew();
        views.set(id, answer);
        if (isFinal(answer.status)) await ended(answer);
      }
      if (left() <= 0)
        await lost(pending, (id) => stillActive(views.get(id)?.status ?? 'not known', timeout ?? 0));
      if (pending.size === 0) return { jobs: [...new Set(ids)].flatMap((id) => over.get(id) ?? []) };
      reporter.waiting(progressOfAll([...pending].map((id) => views.get(id))));
      await pause(Math.min(backoff(round, shortestPause, longestPause), left()), connection.signal);
    }
  } catch (error) {
    if (connection.signal?.aborted) reporter.note(goingOn(connection, [...pending]));
    throw error;
  } finally {
    reporter.waiting(null);
  }
}

/** A sentence about the jobs that have not ended. */
function progressOfAll(views: readonly (JobAnswer | undefined)[]): string {
  const [only] = views;
  if (only && views.length === 1) return progressOf(only);
  const running = views.filter((view) => view?.status === 'running').length;
  return `Waiting for ${views.length} jobs, of which ${running} run`;
}

/** A sentence saying that the jobs keep running, and how to wait for them again. */
function goingOn(connection: Connection, ids: readonly string[]): string {
  const again = connection.nextCommand(`wait ${ids.join(' ')}`);
  const [only] = ids;
  return ids.length === 1
    ? `Job ${only} goes on; '${again}' waits for it again`
    : `${ids.length} jobs go on; '${again}' waits for them again`;
}

const stillActive = (state: string, timeout: number): ClientError =>
  new ClientError(`The job is ${state} after ${timeout} seconds, and goes on`, exitCodes.timedOut);
