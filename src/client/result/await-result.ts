import { errorKinds, exitCodes } from '../../contract/errors.js';
import { resultPath } from '../../contract/paths.js';
import { withoutResult } from '../../contract/routes.js';
import { backoff, pause } from '../connection/backoff.js';
import type { Connection } from '../connection/connection.js';
import { bodyOf, type Reply, refusal, retryAfter } from '../connection/reply.js';
import { ClientError, isTransient, JobFailed, leaving } from '../errors.js';
import type { Reporter } from '../reporter.js';

export interface AwaitOptions {
  /** Longest wait for the result, in seconds. */
  readonly wait: number;
  readonly reporter: Reporter;
  /** Whether the job is known to be done: the first request may fail, too, without ending the wait. */
  readonly isDone?: boolean | undefined;
  /** The command that fetches the result, where that has more words than usual. */
  readonly again?: string;
}

/** The error of a job that ended without a result, if the answer says so; null for any other error answer. */
async function jobFailure(jobId: string, text: string): Promise<JobFailed | null> {
  const data = await bodyOf(text, ({ endBody }) => endBody);
  return data ? new JobFailed(jobId, data.status, data.error ?? 'no reason given') : null;
}

/**
 * Asks for a job's result until it is ready (spec.md, Job control: 202 until then).
 * @param headers of a download that goes on
 * @returns the answer with the result, or with a part of it, or 416
 * @throws JobFailed for a job that ended without one; ClientError (exit 3) when the wait is over; GaveUp with the last error
 * if the server did not answer properly until then
 */
export async function awaitResult(
  connection: Connection,
  jobId: string,
  headers: Readonly<Record<string, string>>,
  options: AwaitOptions,
): Promise<Reply> {
  const { reporter } = options;
  const deadline = performance.now() + options.wait * 1000;
  const patience = connection.patience(reporter);
  let met = connection.isMet || (options.isDone ?? false);
  for (let number = 0; ; number++) {
    let wait = backoff(number, 200, 2000);
    try {
      const reply = await connection.send(resultPath(jobId), { headers });
      met = true;
      if ([200, 206, errorKinds.noSuchRange.status].includes(reply.statusCode)) {
        patience.renew();
        reporter.waiting(null);
        return reply;
      }
      const text = await connection.words(reply);
      if (reply.statusCode !== withoutResult.running) {
        throw (await jobFailure(jobId, text)) ?? (await refusal(reply, text, connection.server));
      }
      patience.renew();
      const asked = retryAfter(reply);
      if (asked) wait = Math.min(asked, 30) * 1000;
      reporter.waiting(`Waiting for the result of job ${jobId}`);
    } catch (error) {
      if (!met || !isTransient(error)) throw error;
      await patience.after(error as Error, deadline - performance.now()).catch((reason: unknown) => {
        throw leaving(jobId, reason, options);
      });
      continue;
    }
    if (performance.now() + wait > deadline) {
      throw new ClientError(
        `Job ${jobId} has no result after ${options.wait} seconds; it goes on: ` +
          `'remote-app logs ${jobId}' follows it, 'remote-app result ${jobId}' asks for its result again`,
        exitCodes.timedOut,
        { job_id: jobId },
      );
    }
    await pause(wait, connection.signal);
  }
}
