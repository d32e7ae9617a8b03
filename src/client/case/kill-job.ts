import { type Connection, fetchLeft, job, kill, leftText } from '../connection/index.js';
import { type ErrorDetails, Interrupted } from '../errors.js';
import type { JobOptions } from './job-options.js';

type KillOptions = Pick<JobOptions, 'reporter' | 'killTimeout'>;

/** What a person can do about a job whose kill was not confirmed. */
const mayStillRun = (connection: Connection, jobId: string): string =>
  `remote job ${jobId} may still run: '${connection.nextCommand(`kill ${jobId}`)}' ends it`;

/** Seconds to wait for the list of what a killed job left: the command should end soon. */
const maxWait = 5;

/** What a killed job left and how to get it, to continue a sentence; empty if it left nothing, or the server does not say. */
async function leftFilesOf(connection: Connection, jobId: string): Promise<string> {
  const signal = AbortSignal.timeout(maxWait * 1000);
  const view = await job(connection, jobId, maxWait, signal).catch(() => null);
  if (!view?.left_files) return '';
  return ` and left ${leftText(view.left_files)}; ${fetchLeft(connection, jobId)} fetches what it left`;
}

/** How to continue with a job that an interruption leaves running. */
const goesOn = (connection: Connection, jobId: string): string =>
  `remote job ${jobId} goes on: '${connection.nextCommand(`logs ${jobId}`)}' follows it, '${connection.nextCommand(`result ${jobId}`)}' fetches its result`;

/** Kills a job that is no longer wanted. Never throws: returns what became of it, as a sentence and as details. */
export async function killAndSay(
  connection: Connection,
  jobId: string,
  why: string,
  { reporter, killTimeout }: KillOptions,
): Promise<{ readonly outcome: string; readonly details: ErrorDetails }> {
  reporter.note(`${why}: killing remote job ${jobId}`);
  try {
    const { status } = await kill(connection, jobId, killTimeout);
    // It may have ended before it could be killed.
    const next =
      status === 'done'
        ? `; '${connection.nextCommand(`result ${jobId}`)}' fetches its result`
        : await leftFilesOf(connection, jobId);
    return { outcome: `remote job ${jobId} is ${status}${next}`, details: { job_id: jobId, status } };
  } catch (error) {
    const why = (error as Error).message;
    return { outcome: `${mayStillRun(connection, jobId)} (${why})`, details: { job_id: jobId } };
  }
}

/**
 * Runs a wait for a job. If the wait is interrupted, the job is killed before the interruption is thrown on, unless the
 * interruption leaves it running.
 */
export async function killedOnInterrupt<T>(
  connection: Connection,
  jobId: string,
  options: KillOptions,
  wait: () => Promise<T>,
): Promise<T> {
  try {
    connection.signal?.throwIfAborted();
    return await wait();
  } catch (error) {
    if (!connection.signal?.aborted) throw error;
    const { reason } = connection.signal;
    const interrupted = reason instanceof Interrupted ? reason : null;
    if (interrupted?.leavesJob) throw interrupted.with(goesOn(connection, jobId), { job_id: jobId });
    if (interrupted) interrupted.leaves = mayStillRun(connection, jobId);
    const { outcome, details } = await killAndSay(connection, jobId, 'Interrupted', options);
    throw interrupted ? interrupted.with(outcome, details) : reason;
  }
}
