import { resultPath } from '../../contract/paths.js';
import { refusedResult } from '../../contract/routes.js';
import { JobFailed } from '../errors.js';
import { job } from './api.js';
import type { Connection } from './connection.js';
import { bodyOf } from './reply.js';

/** Seconds to wait for what else the server says of a job that failed. */
const longestWait = 10;

/**
 * The error of a job that ended without a result, from the answer of the result's route. The body counts, not the status
 * alone: KonfAI's server answers 202 for a job that was killed.
 * @returns null for an answer that says something else
 */
export async function jobFailure(
  connection: Connection,
  jobId: string,
  status: number,
  text: string,
): Promise<JobFailed | null> {
  const data = await bodyOf(text, ({ endBody }) => endBody);
  if (!data) return null;
  const isRefused = status === refusedResult && data.status === 'error';
  const view = await job(connection, jobId, longestWait).catch(() => null);
  const reason = data.error ?? view?.error ?? 'no reason given';
  const facts = {
    expiresAt: view?.expires_at ?? null,
    leftFiles: view?.left_files ?? null,
    now: connection.now(),
  };
  return new JobFailed(jobId, isRefused ? 'refused' : data.status, reason, facts);
}

/**
 * Asks the server why a job ended without a result.
 * @returns null if it does not say: it may have been stopped, or does not know the job any more
 */
export async function askFailure(connection: Connection, jobId: string): Promise<JobFailed | null> {
  try {
    const reply = await connection.send(resultPath(jobId), {});
    if (reply.statusCode !== 200)
      return await jobFailure(connection, jobId, reply.statusCode, await connection.words(reply));
    // Not an error that anybody waits for.
    reply.body.on('error', () => {}).destroy();
    return null;
  } catch (error) {
    if (connection.signal?.aborted) throw error;
    return null;
  }
}
