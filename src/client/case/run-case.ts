import { errorKinds, exitCodes, isFinal, type JobEnvelope, killErrors } from '../../contract/index.js';
import {
  job as askJob,
  backoff,
  type Connection,
  type JobAnswer,
  pause,
  untilAnswered,
} from '../connection/index.js';
import {
  ClientError,
  HttpError,
  isBusy,
  isExpiredJob,
  isUnknownJob,
  JobFailed,
  JobForgotten,
} from '../errors.js';
import type { FoundFiles } from '../found-files.js';
import { FollowedLog, followToEnd, keepLog } from '../logs/index.js';
import { type Outgoing, withOriginals } from '../outgoing.js';
import type { Reporter } from '../reporter.js';
import type { Destination, SavedArchive, StreamedArchive } from '../result/index.js';
import type { Submission } from '../submission.js';
import { type ServerTerms, type Staged, stage, submit, unacknowledged } from '../submit/index.js';
import { stampOfInputs } from './file-times.js';
import type { JobOptions } from './job-options.js';
import { killAndSay, killedOnInterrupt, killQuietly } from './kill-job.js';

/** How often a case is sent again because its server lost its job, or killed it when it was stopped. */
const maxRepeats = 5;
/** Seconds for a question about a job. */
const maxWait = 30;

/** What runs as one job: an operation on an app, with the files that are sent for it. */
export interface Case {
  readonly submission: Submission;
  readonly found: FoundFiles;
  readonly terms: ServerTerms;
  /** How its files leave that are de-identified; null if they leave as they are. */
  readonly outgoing: Outgoing | null;
  /** Absent for a case that is the only one of its command. */
  readonly many?: OneOfMany | undefined;
}

/** What one case of many has in addition: it may need more than one job, and may go on with the job of an earlier command. */
export interface OneOfMany {
  /** The idempotency keys are made from it: a server makes one job of each attempt, however often it is sent. */
  readonly key: string;
  /** The stamp of the inputs when the key was computed. */
  readonly stamp: string;
  /** The number of the next attempt, counted from 1. */
  readonly attempt: number;
  /** The job of that attempt, if an earlier command sent it. */
  readonly jobId?: string | undefined;
  /** Aborted when no further job is to begin. */
  readonly stop: AbortSignal;
}

/** What was fetched of a result. */
export type Fetched = SavedArchive | StreamedArchive;

/** What a command does at each step of a case. */
export interface CaseSteps<T> {
  /** Called when its files are about to be packed and sent. */
  readonly onSending?: () => void;
  /** Called as soon as the server has accepted the job. */
  readonly onAccepted?: ((jobId: string, attempt: number) => void) | undefined;
  /** Called when the job is about to be followed. */
  readonly onRunning: (jobId: string) => Promise<void> | void;
  /** Called when the job is done: brings its result where it belongs, by fetching it to a destination. */
  readonly receive: (fetch: (destination: Destination) => Promise<Fetched>, jobId: string) => Promise<T>;
  /** Writes the record of the job among the files of its result, in this directory. */
  readonly record: (jobId: string, directory: string, log: string | null) => Promise<void>;
}

/** The error under an error that says how to go on. */
export const causeOf = (error: unknown): unknown =>
  error instanceof ClientError && error.cause instanceof ClientError ? error.cause : error;

/** Whether a server, and no proxy, answers that it takes no job now: it is busy, being drained, or has to be restarted after an upgrade. */
const takesNoJobNow = (cause: unknown): boolean =>
  cause instanceof HttpError &&
  !cause.isOfProxy &&
  [errorKinds.busy.status, errorKinds.draining.status].some((status) => status === cause.status);

/** Whether a server does not have a job that it accepted. */
const isJobGone = (error: unknown): boolean =>
  error instanceof JobForgotten || isUnknownJob(causeOf(error)) || isExpiredJob(causeOf(error));

/** Whether a job was killed because its server was stopped. */
const isKilledWithServer = (error: unknown): boolean =>
  error instanceof JobFailed && error.state === 'killed' && error.details.reason === killErrors.stop;

/** Asks about a job. A server that is away is waited for. */
export function askPatiently(connection: Connection, jobId: string, reporter: Reporter): Promise<JobAnswer> {
  const patience = connection.patience(reporter);
  return untilAnswered(connection, patience, () => askJob(connection, jobId, maxWait));
}

/** Sends what is staged. For one case of many, a server that takes no job now is waited for without a limit. */
async function sendStaged(
  connection: Connection,
  { submission, terms, outgoing, many }: Case,
  staged: Staged,
  reporter: Reporter,
  attempt: number,
): Promise<JobEnvelope> {
  if (!many) return submit(connection, submission, staged, reporter);
  const ofAttempt = attempt === 1 ? many.key : `${many.key}-${attempt}`;
  // The key is made of the contents and names of the files: whoever has them could recognise it.
  const key = outgoing ? outgoing.keyFor(ofAttempt) : ofAttempt;
  for (let round = 0; ; round += 1) {
    try {
      return await submit(connection, submission, staged, reporter, key, terms.knowsKeys);
    } catch (error) {
      const cause = causeOf(error);
      if (!takesNoJobNow(cause) || many.stop.aborted) throw error;
      const { message } = error as Error;
      // A full server takes it when another job has ended; otherwise somebody may have to do something.
      if (isBusy(cause)) reporter.waiting(`Waiting for a place: ${message}`);
      else reporter.waiting(`Waiting until the server takes jobs again: ${message}`, true);
      await pause(backoff(round, 1000, 15_000), connection.signal);
      reporter.waiting(null);
    }
  }
}

/**
 * Sends a case. Kills its job if the server did not acknowledge every option (docs/http.md, Submission), or if the files changed
 * after the key was computed from them.
 */
export async function sendCase(
  connection: Connection,
  work: Case,
  options: JobOptions,
  steps: Pick<CaseSteps<unknown>, 'onSending' | 'onAccepted'>,
  attempt = 1,
): Promise<JobEnvelope> {
  const { submission, found, terms, outgoing, many } = work;
  const { reporter } = options;
  steps.onSending?.();
  const staged = await stage(submission, found, terms, outgoing, reporter, connection.signal);
  const envelope = await sendStaged(connection, work, staged, reporter, attempt).finally(() =>
    staged.remove(),
  );
  const { job_id: jobId } = envelope;
  steps.onAccepted?.(jobId, attempt);
  return killedOnInterrupt(connection, jobId, options, many !== undefined, async () => {
    const ignored = unacknowledged(submission, envelope);
    const isChanged = many !== undefined && stampOfInputs(found) !== many.stamp;
    if (ignored.length === 0 && !isChanged) return envelope;
    const unread = `The server did not acknowledge: ${ignored.join(', ')}`;
    if (many) {
      await killQuietly(connection, jobId, options);
      const changed = 'Its files changed while they were sent; run the command again';
      throw new ClientError(isChanged ? changed : unread, exitCodes.failed);
    }
    const { outcome } = await killAndSay(connection, jobId, 'The server did not read every option', options);
    throw new ClientError(`${unread}; ${outcome}`, exitCodes.failed, {
      job_id: jobId,
      ignored_options: ignored,
    });
  });
}

/**
 * Whether a case has to be sent again, since its job will bring no result: the server has lost the job, somebody killed the job of
 * an earlier command, or the server answered with an old job of the same key that failed. A job of an earlier command that failed
 * by itself is not outdated: nobody has been told of its failure yet.
 * @param sentAt by the server's clock; undefined for the job of an earlier command
 */
async function isOutdated(
  connection: Connection,
  jobId: string,
  sentAt: number | undefined,
  reporter: Reporter,
): Promise<boolean> {
  try {
    const { status, finished_at } = await askPatiently(connection, jobId, reporter);
    if (sentAt === undefined) return status === 'killed';
    return isFinal(status) && status !== 'done' && Date.parse(finished_at ?? '') < sentAt;
  } catch (error) {
    if (isJobGone(error)) return true;
    throw error;
  }
}

/**
 * Runs a case from the files on this machine to its result and its record on this machine. An interruption kills the remote job,
 * unless it is done already; another failure leaves it, so that its result can be fetched later. One case of many is sent again,
 * up to `maxRepeats` times, if its job is lost or outdated; what becomes of the last job is what becomes of the case.
 */
export async function runCase<T>(
  connection: Connection,
  work: Case,
  options: JobOptions,
  steps: CaseSteps<T>,
): Promise<{ readonly jobId: string; readonly received: T }> {
  // Before anything is sent: the program may be upgraded while the job runs.
  const { fetchResult } = await import('../result/index.js');
  const { reporter, wait } = options;
  const { many } = work;
  const originals = work.outgoing?.originals ?? {};
  const translate = (text: string) => withOriginals(text, originals);
  let earlier = many?.jobId;
  for (let repeats = 0; ; repeats += 1) {
    const mayRepeat = () => many !== undefined && repeats < maxRepeats && !many.stop.aborted;
    try {
      const sentAt = earlier === undefined ? connection.now() : undefined;
      const jobId =
        earlier ?? (await sendCase(connection, work, options, steps, (many?.attempt ?? 1) + repeats)).job_id;
      const followed = new FollowedLog();
      const isFollowed = await killedOnInterrupt(connection, jobId, options, many !== undefined, async () => {
        if (mayRepeat() && (await isOutdated(connection, jobId, sentAt, reporter))) return false;
        await steps.onRunning(jobId);
        if (many?.stop.aborted) await killQuietly(connection, jobId, options);
        const announced = { isAnnounced: true, followed, translate };
        await followToEnd(connection, jobId, { reporter, persistent: true, readOn: true, ...announced });
        return true;
      });
      // The job is done; an interruption from here on does not affect it.
      const complete = async (directory: string) => {
        const log = await keepLog(connection, jobId, directory, followed);
        await options.imaging.finish(directory, { originals }, reporter);
        await steps.record(jobId, directory, log);
      };
      const how = { wait, reporter, isDone: true, complete };
      const fetch = (destination: Destination) => fetchResult(connection, jobId, destination, how);
      if (isFollowed) return { jobId, received: await steps.receive(fetch, jobId) };
    } catch (error) {
      if (!(mayRepeat() && (isJobGone(error) || isKilledWithServer(error)))) throw error;
    }
    earlier = undefined;
  }
}
