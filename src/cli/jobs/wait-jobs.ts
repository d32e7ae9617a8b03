import {
  askFailure,
  backoff,
  type Connection,
  fetchLeft,
  type JobAnswer,
  job,
  jobs as listJobs,
  pause,
  progressOf,
} from '../../client/connection/index.js';
import { ClientError, isTransient, JobFailed, UsageError } from '../../client/errors.js';
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

/** The jobs to wait for, and those that the wait is over for. */
class WaitedJobs {
  readonly #views = new Map<string, JobAnswer>();
  readonly #over = new Map<string, WaitedJob>();
  /** Ids of the jobs that have not ended. */
  readonly pending: Set<string>;

  constructor(
    private readonly ids: readonly string[],
    private readonly output: JobsOutput,
    private readonly reporter: Reporter,
  ) {
    this.pending = new Set(ids);
  }

  /**
   * A job as it is now; its line is printed when it has ended.
   * @param explain asks the server why a job has no result
   */
  async saw(job: JobAnswer, explain: (job: JobAnswer) => Promise<JobFailed>): Promise<void> {
    const { job_id, status } = job;
    this.#views.set(job_id, job);
    if (!isFinal(status)) return;
    const failure = status === 'done' ? null : this.output.explain(await explain(job)).error;
    const exit_code = failure?.exit_code ?? exitCodes.done;
    this.#end({ job_id, status, error: failure, exit_code });
    this.output.io.exitWithWorst(exit_code);
    await this.output.print(endLine(job, this.output.io.colours(this.output.io.stdout)));
  }

  /** Gives up waiting for a job. */
  async lost(id: string, error: Error): Promise<void> {
    this.reporter.waiting(null);
    const failure = (await tellFailure(id, error, this.output)).error;
    const status = this.#views.get(id)?.status ?? null;
    this.#end({ job_id: id, status, error: failure, exit_code: failure.exit_code });
  }

  /** Gives up waiting for all that are left. */
  async lostAll(errorOf: (state: string) => Error): Promise<void> {
    for (const id of this.pending) await this.lost(id, errorOf(this.#views.get(id)?.status ?? 'not known'));
  }

  /** A sentence about the jobs that have not ended. */
  get progress(): string {
    const views = [...this.pending].flatMap((id) => this.#views.get(id) ?? []);
    const [only] = views;
    if (only && this.pending.size === 1) return progressOf(only);
    const running = views.filter(({ status }) => status === 'running').length;
    return `Waiting for ${this.pending.size} jobs, of which ${running} run`;
  }

  get summary(): WaitSummary {
    return { jobs: this.ids.flatMap((id) => this.#over.get(id) ?? []) };
  }

  #end(job: WaitedJob): void {
    this.pending.delete(job.job_id);
    this.#over.set(job.job_id, job);
    // The next output must not appear beside a spinner.
    this.reporter.waiting(null);
  }
}

interface WaitForJobs {
  readonly ids: readonly string[];
  /** Longest wait for all of them, in seconds; undefined for no limit. */
  readonly timeout: number | undefined;
  readonly output: JobsOutput;
  readonly reporter: Reporter;
}

/**
 * The jobs that a command line means: those that it names, or all of its tags, ended or not, oldest first.
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

/** Longest and shortest pause between two rounds of requests, in milliseconds. */
const [longestPause, shortestPause] = [2000, 200];

/**
 * Waits until these jobs have ended, and prints the line of each when it does. Asks for one after the other, to keep the load
 * on the server low. The command then exits with the highest of their exit codes.
 * @throws the reason of an interruption, which does not end the jobs
 */
export async function waitForJobs(
  connection: Connection,
  { ids, timeout, output, reporter }: WaitForJobs,
): Promise<WaitSummary> {
  const jobs = new WaitedJobs([...new Set(ids)], output, reporter);
  const deadline = monotonicTime() + (timeout === undefined ? Number.POSITIVE_INFINITY : timeout * 1000);
  const left = () => deadline - monotonicTime();
  const patience = connection.patience(reporter);

  /** Handles a failed request. */
  const onError = async (id: string, error: Error) => {
    connection.signal?.throwIfAborted();
    // A server that has never answered is not retried.
    if (!connection.isMet) return jobs.lostAll(() => error);
    if (!isTransient(error)) return jobs.lost(id, error);
    if (left() > 0) {
      await patience.after(error, left()).catch((reason: Error) => {
        connection.signal?.throwIfAborted();
        return jobs.lost(id, reason);
      });
    }
  };

  /** Why a job has no result. The answer to the request for the result also says whether the app refused the input. */
  const explain = async (view: JobAnswer): Promise<JobFailed> =>
    (await askFailure(connection, view.job_id)) ?? failureIn(view, connection);

  try {
    for (let round = 0; ; round += 1) {
      for (const id of jobs.pending) {
        // The last request is made when the time is up, so it must be answered quickly.
        const limit = timeout === undefined ? undefined : Math.max(1, left() / 1000);
        const answer = await job(connection, id, limit).catch((error: Error) => error);
        if (answer instanceof Error) {
          await onError(id, answer);
        } else {
          patience.renew();
          await jobs.saw(answer, explain);
        }
      }
      if (jobs.pending.size > 0 && left() <= 0) {
        await jobs.lostAll((state) => stillActive(state, timeout ?? 0));
      }
      if (jobs.pending.size === 0) return jobs.summary;
      reporter.waiting(jobs.progress);
      await pause(Math.min(backoff(round, shortestPause, longestPause), left()), connection.signal);
    }
  } catch (error) {
    if (connection.signal?.aborted) reporter.note(goingOn(connection, [...jobs.pending]));
    throw error;
  } finally {
    reporter.waiting(null);
  }
}

/** The failure that the job itself reports. */
const failureIn = (
  { job_id, status, error, kind, expires_at, left_files }: JobAnswer,
  connection: Connection,
): JobFailed =>
  new JobFailed(job_id, status === 'killed' ? 'killed' : 'error', error ?? 'no reason given', {
    kind,
    expiresAt: expires_at,
    leftFiles: left_files,
    now: connection.now(),
    fetch: fetchLeft(connection, job_id),
  });

/** Says that the jobs keep running, and how to wait for them again. */
function goingOn(connection: Connection, ids: readonly string[]): string {
  const again = connection.nextCommand(`wait ${ids.join(' ')}`);
  const [only] = ids;
  return ids.length === 1
    ? `Job ${only} goes on; '${again}' waits for it again`
    : `${ids.length} jobs go on; '${again}' waits for them again`;
}

const stillActive = (state: string, timeout: number): ClientError =>
  new ClientError(`The job is ${state} after ${timeout} seconds, and goes on`, exitCodes.timedOut);
