import { rm } from 'node:fs/promises';
import path from 'node:path';
import { counted, exitCodes, isFinal, killErrors } from '../../contract/index.js';
import { isSystemError, TimeSlice, Turns } from '../../files/index.js';
import {
  type AppAnswer,
  job as askJob,
  backoff,
  type Connection,
  type JobAnswer,
  kill,
  pause,
  untilAnswered,
} from '../connection/index.js';
import { ClientError, Interrupted, JobFailed, UsageError, writing } from '../errors.js';
import type { FoundCase, FoundFiles } from '../inputs/index.js';
import { followToEnd } from '../logs/index.js';
import type { Submission } from '../submission.js';
import { type Clearance, preflight, stageFound, submit, unacknowledged } from '../submit/index.js';
import { endsAll, isBusy, isLost, LastLine, reasonOf } from './failures.js';
import { describe, findCases } from './find-cases.js';
import { serverFacts } from './job-record.js';
import { KnownJobs } from './known-jobs.js';
import { numbersOf } from './numbers.js';
import {
  type CaseRecord,
  type Computation,
  computationOf,
  digestOf,
  hashInputs,
  hashOutputs,
  inputPaths,
  keyOf,
  makeRecord,
  type RecordedInput,
  type ServerFacts,
  stampOf,
  writeRecord,
} from './record.js';
import type { CohortOptions, CohortSummary } from './state.js';
import { CaseTable } from './table.js';
import { Workplace } from './workplace.js';

/** How often a case is sent again that its server has lost, or stopped with itself. */
const mostAttempts = 5;
/** Results that may be fetched while as many jobs as allowed run: more would only wait on the server. */
const ahead = 4;
/** Seconds for a question about a job. */
const maxWait = 30;

/** Imported only where a case is to be computed: it loads the libraries of archives. */
const loadResult = () => import('../result/index.js');

/** A case that is to be computed. */
interface Prepared {
  readonly found: FoundCase;
  readonly inputs: readonly RecordedInput[];
  readonly key: string;
  /** Of the inputs when they were read. */
  readonly stamp: string;
}

/** The stamp of the inputs of a case; null if one is gone, which is found out again when it is read. */
function seenStamp(files: FoundFiles): string | null {
  try {
    return stampOf(inputPaths(files));
  } catch {
    return null;
  }
}

/** Jobs of many cases, of which some run at once. */
class Cohort {
  readonly #table: CaseTable;
  /** Jobs that have not ended, by the case. */
  readonly #active = new Map<string, string>();
  /** What the jobs that run wrote last, by the case. */
  readonly #lastLines = new Map<string, LastLine>();
  readonly #known: KnownJobs;
  readonly #computation: Computation;
  /** What ends the command before all cases are done. */
  #end: unknown = null;
  #isEnding = false;
  #server: Promise<ServerFacts> | null = null;

  constructor(
    private readonly connection: Connection,
    private readonly submission: Submission,
    private readonly options: CohortOptions,
    private readonly cases: readonly FoundCase[],
    private readonly workplace: Workplace,
    private readonly clearance: Clearance,
    private readonly app: AppAnswer | null,
  ) {
    this.#computation = computationOf(submission, app);
    this.#known = new KnownJobs(path.join(workplace.own, 'jobs.jsonl'));
    const names = cases.map(({ name }) => name);
    this.#table = new CaseTable(names, workplace.directory, options.watcher, (error) => this.#endWith(error));
  }

  get #signal(): AbortSignal {
    return this.connection.signal ?? new AbortController().signal;
  }

  async run(): Promise<CohortSummary> {
    const { watcher, output } = this.options;
    const left: FoundCase[] = [];
    const slice = new TimeSlice();
    for (const each of this.cases) {
      await slice.pause();
      if (!(await this.#isSeen(each))) left.push(each);
    }
    watcher.began(this.#table.states);
    this.#table.write();
    try {
      await this.#runAll(left);
      if (this.#end !== null) throw this.#end;
    } finally {
      this.#table.write();
      this.workplace.saveSeen(this.cases.map(({ name }) => name));
      this.#known.close(new Set(this.#table.with('done')));
    }
    return { output: path.resolve(output), table: this.#table.file, cases: this.#table.states };
  }

  /** Whether a case is done, judging by what an earlier command saw: nothing is read but its record. */
  async #isSeen({ name, files }: FoundCase): Promise<boolean> {
    if (this.options.verifies) return false;
    const record = this.workplace.record(name);
    const stamp = record && seenStamp(files);
    const digest = stamp && this.workplace.seenDigest(name, stamp);
    if (!record || !digest || record.key !== keyOf(this.#computation, digest)) return false;
    if (!(await this.workplace.hasOutputs(name, record, 'seen'))) return false;
    this.#done(record, name, false);
    return true;
  }

  async #runAll(left: readonly FoundCase[]): Promise<void> {
    // Before anything is sent: the program may be upgraded while jobs run.
    if (left.length > 0) await loadResult();
    const { atMost } = this.options;
    const most = Math.max(1, Math.min(atMost, this.clearance.maxJobs ?? atMost));
    const [places, slots] = [new Turns(most + ahead), new Turns(most)];
    const running: Promise<void>[] = [];
    for (const each of left) {
      if (this.#isEnding) break;
      const leave = await places.take(this.#signal).catch(() => null);
      // The next case is read while those before it are computed.
      const prepared = leave && (await this.#prepare(each));
      const release = prepared && (await slots.take(this.#signal).catch(() => null));
      if (!prepared || !release || this.#isEnding) {
        release?.();
        leave?.();
        continue;
      }
      const task = this.#compute(prepared, release).finally(() => {
        release();
        leave?.();
      });
      running.push(task);
    }
    await Promise.all(running);
    if (this.connection.signal?.aborted) this.#end = this.#interrupted();
  }

  /** Reads the inputs of a case. Null if it is done, or failed. */
  async #prepare(found: FoundCase): Promise<Prepared | null> {
    const { name, files, fault } = found;
    this.#table.change(name, { status: 'reading' });
    try {
      if (fault !== null) throw new UsageError(fault);
      const stamp = stampOf(inputPaths(files));
      const inputs = await hashInputs(files, this.connection.signal);
      this.workplace.sawInputs(name, stamp, digestOf(inputs));
      const key = keyOf(this.#computation, digestOf(inputs));
      const record = this.workplace.record(name);
      const how = this.options.verifies ? 'verify' : 'read';
      if (record?.key === key && (await this.workplace.hasOutputs(name, record, how))) {
        this.#done(record, name, false);
        return null;
      }
      this.workplace.checkPlace(name, this.options.isForced);
      // Until its turn comes.
      this.#table.change(name, { status: 'waiting' });
      return { found, inputs, key, stamp };
    } catch (error) {
      // The file is named by the system's words.
      const isOfFile = isSystemError(error) && !this.connection.signal?.aborted;
      await this.#failed(
        name,
        isOfFile ? new UsageError(`It cannot be read: ${(error as Error).message}`) : error,
      );
      return null;
    }
  }

  /**
   * Computes a case: sends it, or goes on with the job that an earlier command sent; waits for it and fetches its result.
   * @param release called when the job has ended
   */
  async #compute(prepared: Prepared, release: () => void): Promise<void> {
    const { found, key } = prepared;
    const { name } = found;
    const before = this.#known.get(name, key);
    let attempt = before ? before.attempt + (before.isOver ? 1 : 0) : 1;
    let jobId = before && !before.isOver ? before.jobId : null;
    const last = attempt + mostAttempts;
    for (;;) {
      try {
        if (jobId !== null && (await this.#isOver(name, jobId, 0))) {
          jobId = null;
          attempt += 1;
        }
        if (jobId === null) jobId = await this.#send(prepared, attempt);
        if (jobId !== null) {
          this.#active.set(name, jobId);
          await this.#finish(prepared, jobId, release);
          return;
        }
        attempt += 1;
      } catch (error) {
        const isStopped =
          error instanceof JobFailed && error.state === 'killed' && error.details.reason === killErrors.stop;
        if ((isLost(error) || isStopped) && attempt < last && !this.#isEnding) {
          jobId = null;
          attempt += 1;
          continue;
        }
        if (error instanceof JobFailed) {
          this.#known.set(name, { key, attempt, jobId: error.jobId, isOver: true });
        }
        await this.#failed(name, error);
        return;
      } finally {
        this.#active.delete(name);
      }
    }
  }

  /** Asks about the job of a case. A server that is away is waited for. */
  #ask(name: string, jobId: string): Promise<JobAnswer> {
    const { connection } = this;
    const patience = connection.patience(this.options.watcher.reporterOf(name));
    return untilAnswered(connection, patience, () => askJob(connection, jobId, maxWait));
  }

  /** Whether a job has ended without a result before this time, by the server's clock: its case has to be sent anew. */
  async #isOver(name: string, jobId: string, since: number): Promise<boolean> {
    try {
      const view = await this.#ask(name, jobId);
      if (!isFinal(view.status) || view.status === 'done') return false;
      const endedAt = Date.parse(view.finished_at ?? '');
      // A job that failed while nobody waited for it is reported; one that was killed is not what the person wants now.
      return since > 0 ? endedAt < since : view.status === 'killed';
    } catch (error) {
      if (isLost(error)) return true;
      throw error;
    }
  }

  /** Sends a case. A server that takes no job now is waited for. @returns null if it has an earlier job of this key, which failed */
  async #send({ found, key, stamp }: Prepared, attempt: number): Promise<string | null> {
    const { connection, clearance, submission } = this;
    const { name, files } = found;
    const reporter = this.options.watcher.reporterOf(name);
    this.#table.change(name, { status: 'sending' });
    const since = connection.now();
    const staged = await stageFound(submission, files, clearance, reporter, connection.signal);
    try {
      for (let round = 0; ; round += 1) {
        try {
          const unique = attempt === 1 ? key : `${key}-${attempt}`;
          const envelope = await submit(
            connection,
            submission,
            staged,
            reporter,
            unique,
            clearance.knowsKeys,
          );
          const { job_id: jobId } = envelope;
          this.#active.set(name, jobId);
          this.#known.set(name, { key, attempt, jobId, isOver: false });
          const ignored = unacknowledged(submission, envelope);
          const isChanged = stampOf(inputPaths(files)) !== stamp;
          if (ignored.length > 0 || isChanged) {
            await kill(connection, jobId, this.options.killTimeout).catch(() => {});
            throw new ClientError(
              isChanged
                ? 'Its files changed while they were sent; run the command again'
                : `The server did not acknowledge: ${ignored.join(', ')}`,
              exitCodes.failed,
            );
          }
          return (await this.#isOver(name, jobId, since)) ? null : jobId;
        } catch (error) {
          if (!isBusy(error) || this.#isEnding) throw error;
          reporter.waiting(`Waiting for a place: ${(error as Error).message}`);
          await pause(backoff(round, 1000, 15_000), connection.signal);
          reporter.waiting(null);
        }
      }
    } finally {
      await staged.remove();
    }
  }

  async #finish(prepared: Prepared, jobId: string, release: () => void): Promise<void> {
    const { connection } = this;
    const { name } = prepared.found;
    const reporter = new LastLine(this.options.watcher.reporterOf(name));
    this.#lastLines.set(name, reporter);
    this.#table.change(name, { status: 'running', jobId });
    if (this.#isEnding) await kill(connection, jobId, this.options.killTimeout);
    await followToEnd(connection, jobId, { reporter, persistent: true, readOn: true, isAnnounced: true });
    this.#active.delete(name);
    this.#lastLines.delete(name);
    release();
    this.#table.change(name, { status: 'fetching' });
    const directory = await writing(this.workplace.directory, 'run the command again', () =>
      this.workplace.privateDirectory(),
    );
    try {
      const files = path.join(directory, 'files');
      const { wait, isForced } = this.options;
      const { fetchResult } = await loadResult();
      await fetchResult(
        connection,
        jobId,
        { directory: files, taken: 'replace' },
        { wait, reporter, isDone: true },
      );
      const record = await writing(files, 'run the command again', async () => {
        await rm(path.join(files, 'result.zip'));
        writeRecord(files, await this.#recordOf(prepared, jobId, files));
        return this.workplace.place(name, files, isForced);
      });
      if (record) this.#done(record, name, true);
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }

  async #recordOf({ found, inputs }: Prepared, jobId: string, files: string): Promise<CaseRecord> {
    const { connection, app } = this;
    const job = await this.#ask(found.name, jobId).catch(() => null);
    this.#server ??= serverFacts(connection);
    const outputs = await hashOutputs(files, connection.signal);
    return makeRecord({
      computation: this.#computation,
      app,
      job,
      jobId,
      server: await this.#server,
      clientVersion: this.options.clientVersion,
      inputs,
      outputs,
      numbers: numbersOf(files, outputs),
    });
  }

  #done({ seconds, job_id, numbers }: CaseRecord, name: string, isNew: boolean): void {
    this.#table.change(name, { status: 'done', reason: null, seconds, jobId: job_id, isNew, numbers });
  }

  /** A case has failed, or the command ends, by its error or by an interruption. */
  async #failed(name: string, error: unknown): Promise<void> {
    const { signal } = this.connection;
    if (signal?.aborted) {
      await this.#stop(name, signal.reason);
    } else if (this.#isEnding && error instanceof JobFailed && error.state === 'killed') {
      this.#table.change(name, { status: 'waiting', jobId: null });
    } else if (!(error instanceof ClientError) || endsAll(error)) {
      this.#table.change(name, { status: 'waiting' });
      this.#endWith(error);
    } else {
      const reason = reasonOf(error, this.#lastLines.get(name)?.text ?? '');
      this.#lastLines.delete(name);
      this.#table.change(name, { status: 'failed', reason });
      if (this.options.failsFast) await this.#endFast();
    }
  }

  /** No other case is begun, and the command ends with this error. */
  #endWith(error: unknown): void {
    this.#isEnding = true;
    this.#end ??= error;
  }

  /** Ends the jobs of the other cases after a failure. */
  async #endFast(): Promise<void> {
    if (this.#isEnding) return;
    this.#isEnding = true;
    const kills = [...this.#active.values()].map((id) => kill(this.connection, id, this.options.killTimeout));
    await Promise.allSettled(kills);
  }

  /** Kills the job of a case after an interruption, unless it is to go on. */
  async #stop(name: string, reason: unknown): Promise<void> {
    const jobId = this.#active.get(name);
    this.#isEnding = true;
    if (jobId !== undefined && !(reason instanceof Interrupted && reason.leavesJob)) {
      this.options.watcher.reporterOf(name).waiting('Stopping the job');
      await kill(this.connection, jobId, this.options.killTimeout).catch(() => {});
    }
    this.#table.change(name, { status: 'waiting' });
  }

  #interrupted(): unknown {
    const reason: unknown = this.connection.signal?.reason;
    const done = this.#table.with('done').length;
    const outcome = `${done} of ${counted(this.cases.length, 'case')} are done; the same command goes on with the others`;
    return reason instanceof Interrupted ? reason.with(outcome) : reason;
  }
}

/**
 * Runs one job for each case, and fetches each result into a directory of its own, with its record. A case that an earlier command
 * finished is left as it is. A failed case does not stop the others.
 * @throws UsageError for what cannot be sent; the error that would be that of every case, such as a full disk; the reason of an
 * interruption. The same command goes on after each
 */
export async function runCohort(
  connection: Connection,
  submission: Submission,
  options: CohortOptions,
): Promise<CohortSummary> {
  const clearance = await preflight(connection, submission);
  const app = await describe(connection, submission.app, options.reporter);
  const cases = await findCases(submission, options, app);
  using workplace = await writing(options.output, 'run the command again', () =>
    Workplace.open(options.output),
  );
  const cohort = new Cohort(connection, submission, options, cases, workplace, clearance, app);
  // Awaited here: the workplace is locked until the function returns.
  return await cohort.run();
}
