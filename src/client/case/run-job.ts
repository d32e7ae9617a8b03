import { exitCodes, type JobEnvelope, type Operation, someOf } from '../../contract/index.js';
import { app, type Connection, fetchLeft, job, kill, leftText, untilAnswered } from '../connection/index.js';
import { ClientError, type ErrorDetails, Interrupted } from '../errors.js';
import type { FoundFiles } from '../found-files.js';
import { followSentJob } from '../logs/index.js';
import type { Outgoing } from '../outgoing.js';
import type { Reporter } from '../reporter.js';
import type { AwaitOptions, Destination, SavedArchive, StreamedArchive } from '../result/index.js';
import type { Submission } from '../submission.js';
import {
  type Case,
  checkOperation,
  preflight,
  type SentFiles,
  sentFilesOf,
  stage,
  submit,
  unacknowledged,
} from '../submit/index.js';
import { type Addition, completeResult, type EndedCase, recordWait, serverFacts } from './complete-result.js';
import { InputReader } from './input-reader.js';
import { unlessInterrupted } from './interruption.js';
import type { JobOptions } from './job-options.js';
import { forgetSentCase, keepNames } from './kept-facts.js';
import type { Conversion, SentCase } from './record.js';

/** A job that the server has accepted. Disposing of it stops reading its inputs for the record. */
class SentJob implements Disposable {
  constructor(
    readonly work: Case,
    readonly envelope: JobEnvelope,
    readonly inputs: InputReader,
  ) {}

  get id(): string {
    return this.envelope.job_id;
  }

  /** What was sent, under the names by which it was sent. */
  get sent(): SentFiles {
    const { found, outgoing } = this.work;
    return sentFilesOf(outgoing?.renamed ?? found);
  }

  [Symbol.dispose](): void {
    this.inputs[Symbol.dispose]();
  }
}

/** What a command prints about a job that it has sent. */
export type AcceptedJob = JobEnvelope & SentFiles;

/** A job that is done and whose result is on this machine. */
export type FinishedJob = {
  readonly job_id: string;
  readonly status: 'done';
  readonly app: string;
  readonly operation: Operation['segment'];
  /** What was converted, and what was not; null if no conversion was requested. */
  readonly conversion: Conversion | null;
} & SentFiles &
  (SavedArchive | StreamedArchive);

/**
 * Submits a job. Kills it if the server did not acknowledge every option, or the command is interrupted.
 * @param destination where the result will go; null if nobody waits for it
 * @param onAccepted called as soon as the server has accepted the job
 */
export async function sendJob(
  connection: Connection,
  submission: Submission,
  options: JobOptions,
  destination: Destination | null,
  onAccepted: (jobId: string) => void,
): Promise<SentJob> {
  // Loaded before anything is sent: the program may be upgraded while the job runs.
  if (destination) await import('../result/index.js');
  const mayReplace = destination !== null && 'taken' in destination && destination.taken === 'replace';
  const work = await onlyCase(connection, submission, options, mayReplace);
  const inputs = new InputReader(connection, work, options);
  const envelope = await sendCase(connection, work, options.reporter);
  const { job_id: jobId } = envelope;
  onAccepted(jobId);
  await killedOnInterrupt(connection, jobId, options, () =>
    checkAcknowledged(connection, submission, envelope, options),
  );
  const { outgoing } = work;
  // For later commands that show the log or fetch the result.
  if (outgoing) keepNames(options.deidentify.configDir, jobId, connection.server, outgoing.originals);
  inputs.start(jobId);
  return new SentJob(work, envelope, inputs);
}

/** Follows a job until it ends, and saves its result. An interruption kills the job unless it is already done. */
export async function finishJob(
  connection: Connection,
  { id, work, inputs, sent }: SentJob,
  options: JobOptions,
  destination: Destination,
): Promise<FinishedJob> {
  const { reporter, wait } = options;
  const { app: name, operation } = work.submission;
  const originals = work.outgoing?.originals ?? {};
  const followed = await killedOnInterrupt(connection, id, options, () =>
    followSentJob(connection, id, originals, reporter),
  );
  const received = await receiveResult(
    connection,
    id,
    destination,
    { wait, reporter, isDone: true },
    {
      ...options,
      originals,
      followed,
      sent: () => inputs.sent(),
      found: work.found,
    },
  );
  forgetSentCase(options.deidentify.configDir, id);
  return { job_id: id, status: 'done', app: name, operation: operation.segment, ...received, ...sent };
}

/**
 * The case of a command that sends only one. Finds the files first, so that a wrong path is reported before the server is asked
 * for its limits.
 * @param mayReplace whether results replace files of the same names: inputs among them are refused
 */
async function onlyCase(
  connection: Connection,
  submission: Submission,
  options: JobOptions,
  mayReplace: boolean,
): Promise<Case> {
  const { imaging, reporter, output, chooseSeries } = options;
  const describeApp = () =>
    untilAnswered(connection, connection.patience(reporter), () => app(connection, submission.app));
  const finding = {
    output: { directory: output, mayReplace },
    ...{ chooseSeries, describeApp, reporter, signal: connection.signal },
  };
  const found = await imaging.find(submission, finding).catch(async (error: unknown) => {
    await checkOperation(connection, submission);
    throw error;
  });
  reporter.waiting(`Asking ${connection.server} for its limits`);
  const terms = await preflight(connection, submission, reporter).finally(() => reporter.waiting(null));
  const { requiresDeidentified } = terms;
  const preparing = { ...options, requiresDeidentified, server: connection.server };
  const outgoing = (await imaging.prepare([found], preparing, reporter)).outgoing(found);
  if (outgoing) tellNames(found, outgoing, reporter);
  return { submission, found, terms, outgoing };
}

/** Lists the neutral names under which files are sent. */
function tellNames({ volumes }: FoundFiles, outgoing: Outgoing, reporter: Reporter): void {
  const units = volumes.flatMap(({ groups }) => groups.flat());
  const shown = units.map((unit) => `${unit.path} -> ${outgoing.nameOf(unit)}`);
  if (shown.length > 0) reporter.note(`Sent under neutral names: ${someOf(shown)}`);
}

async function sendCase(connection: Connection, work: Case, reporter: Reporter): Promise<JobEnvelope> {
  await using staged = await stage(work, reporter, connection.signal);
  return await submit(connection, work.submission, staged, reporter);
}

/** Kills a job whose server did not acknowledge every option (docs/http.md, Submission). @throws ClientError for such a job */
async function checkAcknowledged(
  connection: Connection,
  submission: Submission,
  envelope: JobEnvelope,
  options: JobOptions,
): Promise<void> {
  const { job_id } = envelope;
  const ignored = unacknowledged(submission, envelope);
  if (ignored.length === 0) return;
  const { outcome } = await killAndSay(connection, job_id, 'The server did not read every option', options);
  throw new ClientError(
    `The server did not acknowledge: ${ignored.join(', ')}; ${outcome}`,
    exitCodes.failed,
    { job_id, ignored_options: ignored },
  );
}

/**
 * Fetches and completes the result of a job, and moves all of it to its place. Nothing is added to a streamed archive.
 * @param addition its `sent` resolves to what the record says about the case; null for no record
 */
export async function receiveResult(
  connection: Connection,
  jobId: string,
  destination: Destination,
  options: AwaitOptions,
  addition: Addition & { readonly sent: () => Promise<SentCase | null> },
): Promise<(SavedArchive | StreamedArchive) & { readonly conversion: Conversion | null }> {
  const { ResultFetch } = await import('../result/index.js');
  const { reporter } = options;
  await using result = new ResultFetch(connection, jobId, destination, options);
  try {
    if ('stream' in destination) return { ...(await result.stream(destination.stream)), conversion: null };
    const directory = await result.fetch();
    const sent = await addition.sent();
    const ended = sent && { sent, ...(await factsOf(connection, jobId)) };
    const conversion = await completeResult(connection, jobId, directory, ended, addition, reporter);
    return { ...(await result.save()), conversion };
  } catch (error) {
    throw result.explain(error);
  }
}

/** What the server says about a job that has ended, for the record. */
async function factsOf(connection: Connection, jobId: string): Promise<Omit<EndedCase, 'sent'>> {
  const [view, server] = await Promise.all([
    job(connection, jobId, recordWait).catch(() => null),
    serverFacts(connection),
  ]);
  return { job: view, server };
}

/** Advice about a job whose kill was not confirmed. */
const mayStillRun = (connection: Connection, jobId: string): string =>
  `remote job ${jobId} may still run: '${connection.nextCommand(`kill ${jobId}`)}' ends it`;

/** Maximum wait for the number of files that a killed job left, in seconds: the command should end soon. */
const maxWait = 5;

/**
 * The continuation of a sentence: what a killed job left, and how to fetch it; empty if it left nothing, or the server does not
 * say.
 */
async function leftFilesOf(connection: Connection, jobId: string): Promise<string> {
  const signal = AbortSignal.timeout(maxWait * 1000);
  const view = await job(connection, jobId, maxWait, signal).catch(() => null);
  if (!view?.left_files) return '';
  return ` and left ${leftText(view.left_files)}; ${fetchLeft(connection, jobId)} fetches what it left`;
}

/** How to continue with a job that an interruption leaves running. */
const goesOn = (connection: Connection, jobId: string): string =>
  `remote job ${jobId} goes on: '${connection.nextCommand(`logs ${jobId}`)}' follows it, '${connection.nextCommand(`result ${jobId}`)}' fetches its result`;

/** Kills a job that is no longer wanted. Never throws: returns the outcome as a sentence and as details. */
async function killAndSay(
  connection: Connection,
  jobId: string,
  why: string,
  { reporter, killTimeout }: JobOptions,
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

/** Kills a job if the command is interrupted during a wait, unless the interruption leaves the job running. */
const killedOnInterrupt = <T>(
  connection: Connection,
  jobId: string,
  options: JobOptions,
  wait: () => Promise<T>,
): Promise<T> =>
  unlessInterrupted(connection, wait, async (reason) => {
    const interrupted = reason instanceof Interrupted ? reason : null;
    if (interrupted?.leavesJob) return interrupted.with(goesOn(connection, jobId), { job_id: jobId });
    if (interrupted) interrupted.leaves = mayStillRun(connection, jobId);
    const { outcome, details } = await killAndSay(connection, jobId, 'Interrupted', options);
    return interrupted ? interrupted.with(outcome, details) : reason;
  });
