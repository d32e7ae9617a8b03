import { counted, exitCodes, type JobEnvelope, mostCounted, type Operation } from '../contract/index.js';
import { JobRecord } from './cohort/index.js';
import { app, type Connection, job, kill } from './connection/index.js';
import { ClientError, type ErrorDetails, Interrupted } from './errors.js';
import type { ChooseSeries, FoundFiles } from './inputs/index.js';
import { followToEnd } from './logs/index.js';
import { nextCommand } from './next-command.js';
import type { Reporter } from './reporter.js';
import { type Destination, fetchResult, type SavedArchive, type StreamedArchive } from './result/index.js';
import type { Submission } from './submission.js';
import { preflight, type Sending, stage, submit, unacknowledged } from './submit/index.js';

export interface RunOptions {
  readonly reporter: Reporter;
  /** Longest time for a kill to take effect, in seconds. */
  readonly killTimeout: number;
  /** Where results are saved: what is there is not sent along. */
  readonly output: string;
  /** Whether results replace files of the same names there; inputs among them are then refused. */
  readonly mayReplace?: boolean;
  /** Chooses among the series of a directory; without it all of them are sent. */
  readonly chooseSeries?: ChooseSeries | undefined;
  /** Called as soon as the server has accepted the job. */
  readonly onAccepted?: (jobId: string) => void;
  /** Called with what is sent, before it is. */
  readonly onFound?: (found: FoundFiles) => void;
}

export interface FinishOptions extends RunOptions {
  /** Where the result goes. */
  readonly destination: Destination;
  /** Longest wait for the result once the job has ended, in seconds. */
  readonly wait: number;
  /** The version of this program, for the record beside the result. */
  readonly clientVersion: string;
  /** Reports further notes about an accepted job. Never rejects. */
  readonly tellAccepted?: (jobId: string) => Promise<unknown>;
}

/** A job that the server has accepted, and what was sent to it. */
export type StartedJob = JobEnvelope & Sending;

/** A job that is done and whose result is on this machine. */
export type FinishedJob = {
  readonly job_id: string;
  readonly status: 'done';
  readonly app: string;
  readonly operation: Operation['segment'];
} & Sending &
  (SavedArchive | StreamedArchive);

/** What a person can do about a job whose kill was not confirmed. */
const mayStillRun = (jobId: string): string =>
  `remote job ${jobId} may still run: '${nextCommand(`kill ${jobId}`)}' ends it`;

/** Seconds to wait for the list of what a killed job left: the command should end soon. */
const maxWait = 5;

/** What a killed job left and how to get it, as a sentence goes on; empty if it is nothing, or the server does not say. */
async function leftFilesOf(connection: Connection, jobId: string): Promise<string> {
  const signal = AbortSignal.timeout(maxWait * 1000);
  const view = await job(connection, jobId, maxWait, signal).catch(() => null);
  if (!view?.left_files) return '';
  const files = `${view.left_files < mostCounted ? '' : 'at least '}${counted(view.left_files, 'file')}`;
  return ` and left ${files}; '${nextCommand(`result ${jobId} --partial`)}' fetches what it left`;
}

/** How to continue with a job that an interruption leaves running. */
const goesOn = (jobId: string): string =>
  `remote job ${jobId} goes on: '${nextCommand(`logs ${jobId}`)}' follows it, '${nextCommand(`result ${jobId}`)}' fetches its result`;

/** Kills a job that is no longer wanted. Never throws: returns what became of it, as a sentence and as details. */
async function killAndSay(
  connection: Connection,
  jobId: string,
  why: string,
  options: RunOptions,
): Promise<{ readonly outcome: string; readonly details: ErrorDetails }> {
  const { reporter, killTimeout } = options;
  reporter.note(`${why}: killing remote job ${jobId}`);
  try {
    const { status } = await kill(connection, jobId, killTimeout);
    // It may have ended before it could be killed.
    const next =
      status === 'done'
        ? `; '${nextCommand(`result ${jobId}`)}' fetches its result`
        : await leftFilesOf(connection, jobId);
    return { outcome: `remote job ${jobId} is ${status}${next}`, details: { job_id: jobId, status } };
  } catch (error) {
    const why = (error as Error).message;
    return { outcome: `${mayStillRun(jobId)} (${why})`, details: { job_id: jobId } };
  }
}

/**
 * Runs a wait for a job. If the wait is interrupted, the job is killed before the interruption is thrown on, unless the
 * interruption leaves it running.
 */
async function killedOnInterrupt<T>(
  connection: Connection,
  jobId: string,
  options: RunOptions,
  wait: () => Promise<T>,
): Promise<T> {
  try {
    connection.signal?.throwIfAborted();
    return await wait();
  } catch (error) {
    if (!connection.signal?.aborted) throw error;
    const { reason } = connection.signal;
    if (reason instanceof Interrupted && reason.leavesJob)
      throw reason.with(goesOn(jobId), { job_id: jobId });
    if (reason instanceof Interrupted) reason.leaves = mayStillRun(jobId);
    const { outcome, details } = await killAndSay(connection, jobId, 'Interrupted', options);
    throw reason instanceof Interrupted ? reason.with(outcome, details) : reason;
  }
}

/**
 * Submits a job: checks what can be known, packs what has to be packed, uploads, and makes sure that the server read every
 * option that was sent; a job for which it did not is killed (spec.md, Job options field).
 */
export async function startJob(
  connection: Connection,
  submission: Submission,
  options: RunOptions,
): Promise<StartedJob> {
  const { reporter, output, mayReplace = false, chooseSeries } = options;
  // Paths are checked first: a mistake in one needs no server.
  const ready = async () => {
    reporter.waiting(`Asking ${connection.server} what it takes`);
    try {
      return await preflight(connection, submission);
    } finally {
      reporter.waiting(null);
    }
  };
  const asksForSegmentations = async (group: number): Promise<boolean> => {
    // Other operations work on what an app has segmented.
    if (!['infer', 'pipeline'].includes(submission.operation.segment)) return true;
    const view = await app(connection, submission.app);
    return view.available && Object.values(view.inputs)[group]?.volume_type === 'SEGMENTATION';
  };
  const staged = await stage(
    submission,
    reporter,
    connection.signal,
    { place: { directory: output, mayReplace }, chooseSeries, asksForSegmentations },
    ready,
  );
  let envelope: JobEnvelope;
  try {
    options.onFound?.(staged.found);
    envelope = await submit(connection, submission, staged, options.reporter);
  } finally {
    await staged.remove();
  }
  options.onAccepted?.(envelope.job_id);
  return killedOnInterrupt(connection, envelope.job_id, options, async () => {
    const ignored = unacknowledged(submission, envelope);
    if (ignored.length === 0) return { ...envelope, ...staged.sending };
    const why = 'The server did not read every option';
    const { outcome } = await killAndSay(connection, envelope.job_id, why, options);
    const unread = `The server did not acknowledge: ${ignored.join(', ')}`;
    throw new ClientError(`${unread}; ${outcome}`, exitCodes.failed, {
      job_id: envelope.job_id,
      ignored_options: ignored,
    });
  });
}

/**
 * Runs one operation from the files on this machine to the result on this machine. An interruption kills the
 * remote job, unless it is done already; another failure leaves it, so that its result can be fetched later.
 */
export async function runJob(
  connection: Connection,
  submission: Submission,
  options: FinishOptions,
): Promise<FinishedJob> {
  const { reporter, clientVersion } = options;
  using record = new JobRecord(connection, submission, { reporter, clientVersion });
  const onFound = (found: FoundFiles) => record.sends(found);
  const { job_id, sent, skipped } = await startJob(connection, submission, { ...options, onFound });
  record.begin();
  const { app, operation } = submission;
  // Reported at once, even if the server's log does not say it.
  reporter.note(`Job ${job_id} is accepted: ${operation.command} on ${app}`);
  await killedOnInterrupt(connection, job_id, options, async () => {
    await options.tellAccepted?.(job_id);
    await followToEnd(connection, job_id, { reporter, persistent: true, readOn: true, isAnnounced: true });
  });
  // The job is done; an interruption from here on does not affect it.
  const fetched = await fetchResult(connection, job_id, options.destination, {
    wait: options.wait,
    reporter,
    isDone: true,
    complete: (directory) => record.write(job_id, directory),
  });
  return { job_id, status: 'done', app, operation: operation.segment, ...fetched, sent, skipped };
}
