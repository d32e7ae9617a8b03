import { exitCodes } from '../contract/errors.js';
import { resultPath } from '../contract/routes.js';
import { backoff, pause } from './backoff.js';
import type { Connection } from './connection.js';
import { ClientError, isTransient, JobFailed } from './errors.js';
import { header, type Reply, refusal } from './reply.js';
import type { Reporter } from './reporter.js';

export interface AwaitOptions {
  /** Longest wait for the result, in seconds. */
  readonly wait: number;
  readonly reporter: Reporter;
  /** Keeps trying even where the first request fails: the job is known to exist. */
  readonly persistent?: boolean | undefined;
}

/** The end of a job that has no result, where the answer says so. */
function jobFailure(jobId: string, text: string): JobFailed | null {
  try {
    const body = JSON.parse(text) as { status?: unknown; error?: unknown } | null;
    if (body?.status === 'error' || body?.status === 'killed') {
      return new JobFailed(
        jobId,
        body.status,
        typeof body.error === 'string' ? body.error : 'no reason given',
      );
    }
  } catch {
    // Not the job's end but the server's, or a proxy's, own error.
  }
  return null;
}

/**
 * Asks for a job's result until it is there (spec.md, Job control: 202 until then).
 * @param headers of a download that goes on
 * @returns the answer with the result, or with a part of it, or 416
 * @throws JobFailed for a job that ended without one; ClientError (exit 3) when the wait is over
 */
export async function awaitResult(
  connection: Connection,
  jobId: string,
  headers: Readonly<Record<string, string>>,
  options: AwaitOptions,
): Promise<Reply> {
  const { reporter } = options;
  const deadline = performance.now() + options.wait * 1000;
  let met = options.persistent ?? false;
  for (let number = 0; ; number++) {
    let wait = backoff(number, 200, 2000);
    try {
      const reply = await connection.send(resultPath(jobId), { headers });
      met = true;
      if ([200, 206, 416].includes(reply.statusCode)) {
        reporter.waiting(null);
        return reply;
      }
      const text = await connection.text(reply);
      if (reply.statusCode !== 202) throw jobFailure(jobId, text) ?? refusal(reply, text);
      const asked = Number(header(reply, 'retry-after'));
      if (asked > 0) wait = Math.min(asked, 30) * 1000;
      reporter.waiting(`Waiting for the result of job ${jobId}`);
    } catch (error) {
      if (!met || !isTransient(error) || performance.now() > deadline) throw error;
    }
    if (performance.now() + wait > deadline) {
      throw new ClientError(
        `Job ${jobId} has no result after ${options.wait} seconds; it goes on, ask again later`,
        exitCodes.timedOut,
        { job_id: jobId },
      );
    }
    await pause(wait, connection.signal);
  }
}
