import { exitCodes } from '../../contract/errors.js';
import { isFinal } from '../../contract/job.js';
import type { LogEvent } from '../../contract/log-stream.js';
import type { Connection } from '../connection/index.js';
import { job } from '../connection/index.js';
import { ClientError, isTransient } from '../errors.js';
import { nextCommand } from '../next-command.js';

/**
 * The log of a server that neither numbers lines nor replays them, as KonfAI's: its readers empty a queue, so a second stream
 * has what the first one left. What became of the job is asked for.
 */

/** Streams, one after the other, that are cut before anything comes, from which on another reader is taken to be the cause. */
export const muteStreams = 2;

/** The end of a job, read from its state; null if it has not ended. */
export async function endByState(connection: Connection, jobId: string): Promise<LogEvent | null> {
  const view = await job(connection, jobId);
  if (!isFinal(view.status)) return null;
  if (view.status === 'done') return { kind: 'done' };
  return { kind: 'error', message: view.error ?? `the job is ${view.status}` };
}

/**
 * What became of a job whose log says only that it has ended: the marker may be one that an earlier reader of a failed job
 * left.
 * @returns null if the server does not tell
 * @throws an error after which the server may be asked again
 */
export async function checkedEnd(connection: Connection, jobId: string): Promise<LogEvent | null> {
  try {
    return await endByState(connection, jobId);
  } catch (error) {
    connection.signal?.throwIfAborted();
    if (isTransient(error)) throw error;
    return null;
  }
}

/** A log that another program reads. KonfAI's server cuts the second stream of a job where ours refuses it. */
export const readAlready = ({ server }: Connection, jobId: string): ClientError =>
  new ClientError(
    `The log of job ${jobId} is being read already, and ${server} gives it to one reader at a time; ` +
      `'${nextCommand(`status ${jobId}`)}' tells how the job does, '${nextCommand(`result ${jobId}`)}' waits for its result`,
    exitCodes.busy,
    { job_id: jobId },
  );

/**
 * Why streams are cut before anything comes: the end of a job that has ended, or the error for a log that another program
 * reads; null while the server is gone.
 * @throws HttpError if the server does not know the job
 */
export async function explainMute(
  connection: Connection,
  jobId: string,
): Promise<LogEvent | ClientError | null> {
  try {
    return (await endByState(connection, jobId)) ?? readAlready(connection, jobId);
  } catch (error) {
    connection.signal?.throwIfAborted();
    if (isTransient(error)) return null;
    throw error;
  }
}
