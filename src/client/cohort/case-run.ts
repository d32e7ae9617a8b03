import { randomUUID } from 'node:crypto';
import { errorKinds, exitCodes, isFinal, killErrors } from '../../contract/index.js';
import {
  type CaseRecord,
  type Computation,
  completeResult,
  type JobOptions,
  type RecordedInput,
  type ServerFacts,
  stampOfInputs,
  unlessInterrupted,
} from '../case/index.js';
import {
  job as askJob,
  backoff,
  type Connection,
  type JobAnswer,
  kill,
  pause,
  untilAnswered,
} from '../connection/index.js';
import {
  ClientError,
  HttpError,
  Interrupted,
  isBusy,
  isExpiredJob,
  isUnknownJob,
  JobFailed,
  JobForgotten,
  withWriteErrors,
} from '../errors.js';
import { type FoundCase, remarksOn } from '../found-files.js';
import { followSentJob } from '../logs/index.js';
import type { Outgoing } from '../outgoing.js';
import { ResultFetch } from '../result/index.js';
import type { Submission } from '../submission.js';
import { type ServerTerms, type Staged, stage, submit, unacknowledged } from '../submit/index.js';
import { type LayoutName, renameForBids } from './bids-layout.js';
import type { CasePlace } from './case-place.js';
import { causeOf, type LastLine } from './failures.js';
import type { JobCases, KnownJobs } from './known-jobs.js';
import { goOnLater, type ResultsDirectory } from './results-directory.js';
import type { CaseTable, CohortWatcher } from './table.js';

/** How many times a case is sent again because its server lost the job, or killed it when the server was stopped. */
const maxRepeats = 5;
/** Maximum time for a request about a job, in seconds. */
const maxWait = 30;

/** Options of a cohort. The reporter gets what concerns all cases. */
export interface CohortOptions extends JobOptions {
  readonly layout: LayoutName;
  /** Maximum number of jobs that run at once. */
  readonly maxJobs: number;
  /** Whether all cases are computed again, even where there are files that belong to no record. */
  readonly isForced: boolean;
  /** Whether results from another version of the app are kept. */
  readonly keepsVersion: boolean;
  /** Whether cases that lack a file of a group are left out. */
  readonly skipsIncomplete: boolean;
  /** Whether the first failure ends the command. */
  readonly failsFast: boolean;
  readonly watcher: CohortWatcher;
}

/** A case that is to be computed. */
export interface PreparedCase {
  readonly foundCase: FoundCase;
  readonly place: CasePlace;
  /** How its files are de-identified; null if they are sent unchanged. */
  readonly outgoing: Outgoing | null;
  readonly inputs: RecordedInput[];
  readonly key: string;
  /** Stamp of the inputs when they were read. */
  readonly stamp: string;
  /** The stamp for the record; null if a file was written too recently. */
  readonly recordedStamp: string | null;
}

/** What the cases of a cohort share. */
export interface RunContext {
  readonly connection: Connection;
  readonly submission: Submission;
  readonly options: CohortOptions;
  readonly terms: ServerTerms;
  readonly results: ResultsDirectory;
  readonly computation: Computation;
  readonly table: CaseTable;
  readonly known: KnownJobs;
  readonly jobCases: JobCases;
  /** Aborted when no further job may be started. */
  readonly stop: AbortSignal;
  readonly server: () => Promise<ServerFacts>;
  /** Called before a result is fetched, with the versions of the app that its job may have run. */
  readonly checkVersions: (versions: readonly (string | null | undefined)[]) => void;
  /** The current version of the app. */
  readonly currentVersion: () => Promise<string | null | undefined>;
}

/**
 * Whether the server itself, not a proxy, answers that it currently accepts no jobs: it is busy, being drained, or must be
 * restarted after an upgrade.
 */
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

/** Computes one case: sends it, or continues with the job of an earlier command, and puts the result in its place. */
export class CaseRun {
  constructor(
    private readonly context: RunContext,
    private readonly prepared: PreparedCase,
    private readonly reporter: LastLine,
    /** Called when a job has ended, and before its result is fetched. */
    private readonly onJobEnd: () => void,
  ) {}

  /**
   * Computes the case. If its job is lost or outdated, sends the case again, up to `maxRepeats` times, with a number appended to
   * its key; the last job decides the outcome. An interruption kills the job unless it is already done; other failures leave it
   * running.
   */
  async run(): Promise<CaseRecord | null> {
    const { connection, known, stop } = this.context;
    const { foundCase, key } = this.prepared;
    const before = known.get(foundCase.name, key);
    const first = before ? before.attempt + (before.isOver ? 1 : 0) : 1;
    let earlier = before?.isOver ? undefined : before?.jobId;
    for (let attempt = first; ; attempt += 1) {
      const mayRepeat = () => attempt - first < maxRepeats && !stop.aborted;
      try {
        const sentAt = earlier === undefined ? connection.now() : undefined;
        const jobId = earlier ?? (await this.#send(attempt));
        const isOutdated = await this.#killedOnInterrupt(
          jobId,
          async () => mayRepeat() && (await this.#isOutdated(jobId, sentAt)),
        );
        if (!isOutdated) return await this.#receive(jobId, await this.#follow(jobId));
      } catch (error) {
        if (!(mayRepeat() && (isJobGone(error) || isKilledWithServer(error)))) throw error;
      }
      earlier = undefined;
    }
  }

  /** Sends the case. Kills its job if the server did not acknowledge every option, or if the files changed after they were read. */
  async #send(attempt: number): Promise<string> {
    const { connection, submission, terms, options, table, jobCases, known } = this.context;
    const { foundCase, outgoing, key, stamp } = this.prepared;
    const { name, files } = foundCase;
    // An earlier attempt may have left its last line.
    this.reporter.text = '';
    table.change(name, { status: 'sending' });
    await using staged = await stage(
      { submission, found: files, terms, outgoing },
      this.reporter,
      connection.signal,
    );
    const numbered = attempt === 1 ? key : `${key}-${attempt}`;
    // For a known key, the server would answer with the job of an earlier command.
    const ofAttempt = options.isForced ? randomUUID() : numbered;
    // The key is derived from file contents and names, so anybody who has the files could recognise it.
    const envelope = await this.#submit(staged, outgoing ? outgoing.keyFor(ofAttempt) : ofAttempt);
    const { job_id: jobId } = envelope;
    jobCases.claim(jobId, name, key);
    known.set(name, { key, attempt, jobId, isOver: false });
    await this.#killedOnInterrupt(jobId, async () => {
      const isChanged = stampOfInputs(files) !== stamp;
      const ignored = unacknowledged(submission, envelope);
      if (!isChanged && ignored.length === 0) return;
      await this.#kill(jobId);
      throw new ClientError(
        isChanged
          ? 'Its files changed while they were sent; run the command again'
          : `The server did not acknowledge: ${ignored.join(', ')}`,
        exitCodes.failed,
      );
    });
    return jobId;
  }

  /** Submits the staged files. Waits without a time limit while the server accepts no jobs. */
  async #submit(staged: Staged, key: string): ReturnType<typeof submit> {
    const { connection, submission, terms, stop } = this.context;
    const { reporter } = this;
    for (let round = 0; ; round += 1) {
      try {
        return await submit(connection, submission, staged, reporter, key, terms.knowsKeys);
      } catch (error) {
        const cause = causeOf(error);
        if (!takesNoJobNow(cause) || stop.aborted) throw error;
        const { message } = error as Error;
        // A busy server accepts the job once another has ended; otherwise an admin may have to act, which concerns the whole
        // command.
        if (isBusy(cause)) reporter.waiting(`Waiting for a place: ${message}`);
        else reporter.waiting(`Waiting until the server takes jobs again: ${message}`, true);
        await pause(backoff(round, 1000, 15_000), connection.signal);
        reporter.waiting(null);
      }
    }
  }

  /**
   * Whether a job will never bring a result: the server lost it, somebody killed the job of an earlier command, or the server
   * answered with an old, failed job of the same key. A job of an earlier command that failed on its own is not outdated, because
   * its failure has not been reported yet.
   * @param sentAt by the server's clock; undefined for the job of an earlier command
   */
  async #isOutdated(jobId: string, sentAt: number | undefined): Promise<boolean> {
    try {
      const { status, finished_at } = await this.#ask(jobId);
      if (sentAt === undefined) return status === 'killed';
      return isFinal(status) && status !== 'done' && Date.parse(finished_at ?? '') < sentAt;
    } catch (error) {
      if (isJobGone(error)) return true;
      throw error;
    }
  }

  async #follow(jobId: string): ReturnType<typeof followSentJob> {
    const { connection, table, stop } = this.context;
    const { foundCase, outgoing } = this.prepared;
    return this.#killedOnInterrupt(jobId, async () => {
      table.change(foundCase.name, { status: 'running', jobId });
      if (stop.aborted) await this.#kill(jobId);
      return followSentJob(connection, jobId, outgoing?.originals ?? {}, this.reporter);
    });
  }

  /** Completes the result of a job in a private directory, and puts it in its place. */
  async #receive(
    jobId: string,
    followed: Awaited<ReturnType<typeof followSentJob>>,
  ): Promise<CaseRecord | null> {
    const { connection, options, results, table, computation } = this.context;
    const { foundCase, place, outgoing, inputs, recordedStamp } = this.prepared;
    const { reporter } = this;
    const { wait, imaging, conversion, isForced } = options;
    const { name, files } = foundCase;
    let job = await this.#ask(jobId).catch(() => null);
    if (job?.version === null && computation.app_version !== null) {
      // The server may still be computing the version. If it is unknown, the app has changed while the job ran.
      const now = await this.context.currentVersion();
      job = await this.#ask(jobId).catch(() => job);
      this.context.checkVersions(job?.version === null ? [computation.app_version, now] : [job?.version]);
    } else this.context.checkVersions([job?.version]);
    this.onJobEnd();
    table.change(name, { status: 'fetching' });
    await using own = await withWriteErrors(results.directory, goOnLater, () => results.privateDirectory());
    // `remote-app result` would not put the result in its place.
    const output = { owned: own.path, place: place.directory, next: goOnLater };
    await using result = new ResultFetch(connection, jobId, output, { wait, reporter, isDone: true });
    try {
      const directory = await result.fetch();
      return await withWriteErrors(place.directory, goOnLater, async () => {
        const sent = { ...computation, inputs, inputs_remarks: remarksOn(files) };
        const ended = { sent, job, server: await this.context.server() };
        const originals = outgoing?.originals ?? {};
        const addition = { imaging, conversion, originals, followed, found: files, needsRecord: true };
        await completeResult(connection, jobId, directory, ended, addition, reporter);
        if (place.prefix !== '') renameForBids(place, directory);
        await results.prepareForPlace(name, place, directory, { inputs: recordedStamp, isForced });
        await results.putInPlace(place, directory);
        return results.readRecord(place);
      });
    } catch (error) {
      throw result.explain(error);
    }
  }

  /** Asks for the state of a job. Waits while the server is unreachable. */
  #ask(jobId: string): Promise<JobAnswer> {
    const { connection } = this.context;
    const patience = connection.patience(this.reporter);
    return untilAnswered(connection, patience, () => askJob(connection, jobId, maxWait));
  }

  /** Kills a job without a note. Never throws. */
  async #kill(jobId: string): Promise<void> {
    const { connection, options } = this.context;
    this.reporter.waiting('Stopping the job');
    await kill(connection, jobId, options.killTimeout).catch(() => {});
  }

  /** Kills a job if the command is interrupted during a wait, unless the interruption leaves the job running. */
  #killedOnInterrupt<T>(jobId: string, wait: () => Promise<T>): Promise<T> {
    return unlessInterrupted(this.context.connection, wait, async (reason) => {
      if (!(reason instanceof Interrupted && reason.leavesJob)) await this.#kill(jobId);
      return reason;
    });
  }
}
