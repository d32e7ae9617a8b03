import {
  errorKinds,
  excerpt,
  exitCodes,
  finalStates,
  parameters,
  resultPath,
  withoutResult,
} from '../../contract/index.js';
import { monotonicTime } from '../../files/index.js';
import {
  backoff,
  bodyOf,
  type Connection,
  job,
  jobFailure,
  type Patience,
  pause,
  progressOf,
  type Reply,
  retryAfter,
} from '../connection/index.js';
import {
  ClientError,
  isTransient,
  isUnknownJob,
  type JobFailed,
  JobForgotten,
  withResumeHint,
} from '../errors.js';
import type { Reporter } from '../reporter.js';

export interface AwaitOptions {
  /** Maximum wait for the result after the job has ended, in seconds. There is no limit while the job has not ended. */
  readonly wait: number;
  /** Whether to ask only once. */
  readonly isImpatient?: boolean | undefined;
  readonly reporter: Reporter;
  /** Whether the job is known to be done, so that even a failed first request does not end the wait. */
  readonly isDone?: boolean | undefined;
  /** Whether to fetch the files that a failed job left as well. */
  readonly isPartial?: boolean | undefined;
  /** The patience of an interrupted download that is resumed; a new one by default. */
  readonly patience?: Patience | undefined;
  /** The command that fetches the result, if it differs from the usual one. */
  readonly again?: string;
}

/** The state of a job that has not ended, from a 202 answer; undefined if the job has ended, or the answer does not say. */
async function unfinishedState(text: string): Promise<string | undefined> {
  const data = await bodyOf(text, ({ unfinishedBody }) => unfinishedBody);
  const isEnded = data === undefined || (finalStates as readonly string[]).includes(data.status);
  return isEnded ? undefined : excerpt(data.status, 40);
}

/** What the command is waiting for. If the job itself is waiting, the server is asked what for. */
async function waitText(connection: Connection, jobId: string, state: string | undefined): Promise<string> {
  if (state === undefined) return `Waiting for the result of job ${jobId}`;
  const view = state === 'running' ? null : await job(connection, jobId).catch(() => null);
  return progressOf(view ?? { job_id: jobId, status: state });
}

/** The error for a failed job on a server that does not provide the files that such a job left. */
const notHandedOut = (server: string, { message, exitCode, details }: JobFailed): ClientError =>
  new ClientError(`${message}; ${server} does not hand out what it left`, exitCode, details);

/** The error when the time limit is reached. */
function notReady(
  connection: Connection,
  jobId: string,
  state: string | undefined,
  waited: number,
): ClientError {
  const [logs, result] = ['logs', 'result'].map((each) => connection.nextCommand(`${each} ${jobId}`));
  const next = `'${logs}' follows it, '${result}' asks for its result again`;
  const message = state
    ? `Job ${jobId} is ${state}, and has no result yet: ${next}`
    : `Job ${jobId} has ended, and its result is not there after ${waited} seconds: ${next}`;
  return new ClientError(message, exitCodes.timedOut, { job_id: jobId, ...(state ? { status: state } : {}) });
}

/**
 * Requests a job's result until it is ready (docs/http.md, Result). The time limit starts when the job has ended: a running job
 * is never given up.
 * @param headers of a resumed download
 * @returns the answer with the result, or with a part of it, or 416
 * @throws JobFailed for a job that ended without one; ClientError (exit 3) when the time limit is reached; GaveUp with the last
 *   error if the server did not answer properly until then
 */
export async function awaitResult(
  connection: Connection,
  jobId: string,
  headers: Readonly<Record<string, string>>,
  options: AwaitOptions,
): Promise<Reply> {
  const { reporter } = options;
  const path = resultPath(jobId);
  const query = options.isPartial ? `?${parameters.partial.name}=1` : '';
  const afterWait = () => monotonicTime() + options.wait * 1000;
  /** Null while the job runs, as far as is known. */
  let deadline = options.isDone ? afterWait() : null;
  let isTold = false;
  const patience = options.patience ?? connection.patience(reporter);
  let met = connection.isMet || (options.isDone ?? false);
  for (let number = 0; ; number++) {
    let wait = backoff(number, 200, 2000);
    let state: string | undefined;
    try {
      const reply = await connection.send(path, { headers, query });
      met = true;
      if ([200, 206, errorKinds.noSuchRange.status].includes(reply.statusCode)) {
        // The patience is not renewed: only arriving bytes show that an outage is over.
        reporter.waiting(null);
        return reply;
      }
      const text = await connection.words(reply);
      const failure = await jobFailure(connection, jobId, reply.statusCode, text);
      if (failure) throw options.isPartial ? notHandedOut(connection.server, failure) : failure;
      if (reply.statusCode !== withoutResult.running) throw await connection.refusal(reply, path, text);
      patience.renew();
      const asked = retryAfter(reply);
      if (asked) wait = Math.min(asked, 30) * 1000;
      state = options.isDone ? undefined : await unfinishedState(text);
      if (state === undefined) deadline ??= afterWait();
      else deadline = null;
      const waited = await waitText(connection, jobId, state);
      reporter.waiting(waited, state !== undefined && !options.isImpatient && !isTold);
      isTold = true;
    } catch (error) {
      if ((number > 0 || options.isDone) && isUnknownJob(error)) {
        throw new JobForgotten(jobId, connection.server, error);
      }
      if (!met) throw error;
      if (!isTransient(error))
        throw withResumeHint(connection, jobId, error, { ...options, isKnown: isTold });
      // An error that says how to continue is not retried by the download.
      if (options.isImpatient) throw withResumeHint(connection, jobId, error, options);
      const left = deadline === null ? undefined : deadline - monotonicTime();
      await patience.after(error as Error, left).catch((reason: unknown) => {
        throw withResumeHint(connection, jobId, reason, options);
      });
      continue;
    }
    const isOver = deadline !== null && monotonicTime() + wait > deadline;
    if (isOver || options.isImpatient) {
      reporter.waiting(null);
      throw notReady(connection, jobId, state, options.isImpatient ? 0 : options.wait);
    }
    await pause(wait, connection.signal);
  }
}
