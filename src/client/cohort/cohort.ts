import path from 'node:path';
import { counted, oneLine, someOf, tableName } from '../../contract/index.js';
import { isSystemError, TimeSlice, Turns } from '../../files/index.js';
import {
  askPatiently,
  type CaseRecord,
  type Computation,
  computationOf,
  digestOf,
  hashInputs,
  keyOf,
  type Preparation,
  type RecordedInput,
  recordResult,
  runCase,
  type ServerFacts,
  serverFacts,
  stampIfThere,
  stampOfInputs,
} from '../case/index.js';
import { type AppAnswer, type Connection, kill } from '../connection/index.js';
import { ClientError, Interrupted, JobFailed, UsageError, WriteError, writing } from '../errors.js';
import type { FoundCase } from '../found-files.js';
import type { Submission } from '../submission.js';
import { preflight, type ServerTerms } from '../submit/index.js';
import { BidsLayout, checkDerivatives, describeDerivatives } from './bids-layout.js';
import { placeOf } from './case-names.js';
import { CohortDirectory } from './cohort-directory.js';
import { aboutEarlierResult, otherCases, stateOfResult } from './earlier-results.js';
import { concernsAllCases, goOnLater, LastLine, reasonOf, withMore } from './failures.js';
import { describeApp, findCasesToSend } from './find-cases.js';
import { JobOwners, KnownJobs } from './known-jobs.js';
import { numberedCases } from './neutral-numbers.js';
import type { CaseState, CohortOptions, CohortSummary } from './state.js';
import { CaseTable } from './table.js';

/** Most results that are fetched while as many jobs as allowed run: more would only wait on the server. */
const mostFetching = 4;

/** A case that is to be computed. */
interface Prepared {
  readonly found: FoundCase;
  readonly inputs: readonly RecordedInput[];
  readonly key: string;
  /** Of the inputs when they were read. */
  readonly stamp: string;
}

/** A queue of cases, of which some run at once. */
class Cohort {
  readonly #table: CaseTable;
  readonly #known: KnownJobs;
  readonly #computation: Computation;
  /** Aborted when no other case is begun any more. */
  readonly #stop = new AbortController();
  /** What the command throws once it has stopped. */
  #fault: { readonly error: unknown } | undefined;
  #server: Promise<ServerFacts> | undefined;
  /** Jobs that ran when the command was interrupted. */
  #leftJobs = 0;
  readonly #owners: JobOwners;

  constructor(
    private readonly connection: Connection,
    private readonly submission: Submission,
    private readonly options: CohortOptions,
    private readonly cases: readonly FoundCase[],
    private readonly directory: CohortDirectory,
    private readonly terms: ServerTerms,
    private readonly app: AppAnswer | null,
    private readonly others: readonly CaseState[],
    private readonly preparation: Preparation,
    /** The numbers of the cases in their neutral names. */
    private readonly numbers: ReadonlyMap<string, number>,
  ) {
    this.#computation = computationOf(submission, app, preparation.note);
    this.#known = new KnownJobs(path.join(directory.own, 'jobs.jsonl'));
    this.#owners = new JobOwners((name) => directory.record(name)?.key);
    for (const { name, jobId } of others) if (jobId !== null) this.#owners.know(jobId, name, null);
    this.#table = new CaseTable(cases, others, directory.directory, options.watcher, (error) =>
      this.#stopWith(error),
    );
  }

  async run(): Promise<CohortSummary> {
    const { watcher, output } = this.options;
    const left: FoundCase[] = [];
    const slice = new TimeSlice();
    for (const each of this.cases) {
      await slice.pause();
      this.directory.looks.note(each.name, { place: placeOf(each.files) });
      if (!(await this.#isSeen(each))) left.push(each);
    }
    watcher.began(this.#table.states);
    this.#table.write();
    try {
      await this.#runAll(left);
      if (this.#fault) throw this.#fault.error;
    } finally {
      this.#table.write();
      this.directory.saveSeen(new Set(this.cases.map(({ name }) => name)));
      this.#known.close(new Set(this.#table.with('done').map(({ name }) => name)));
    }
    this.#tellOfTable();
    return { output: path.resolve(output), table: this.#table.file, cases: this.#table.states };
  }

  #tellOfTable(): void {
    const { reporter } = this.options;
    const { leftColumns } = this.#table;
    if (leftColumns > 0)
      reporter.note(
        `${tableName} has no column for ${counted(leftColumns, 'number')} that few cases have; the records have them`,
      );
    const without = this.others.filter((each) => each.status !== 'done' && each.status !== 'edited');
    if (without.length > 0)
      reporter.note(
        `${tableName} keeps ${counted(without.length, 'row')} of earlier commands without a result: ${someOf(without.map(({ name }) => oneLine(name)))}`,
      );
  }

  /** Whether a case is done, judging by what an earlier command saw: nothing is read but its record. */
  async #isSeen({ name, files }: FoundCase): Promise<boolean> {
    if (this.options.verifies) return false;
    const record = this.directory.record(name);
    const stamp = record && stampIfThere(files);
    const digest = stamp && this.directory.seenDigest(name, stamp);
    if (!record || !digest || record.key !== keyOf(this.#computation, digest)) return false;
    if (!this.#isConverted(record)) return false;
    if ((await this.directory.stateOfOutputs(name, record, 'seen')) !== 'intact') return false;
    await this.#done(record, name, false);
    return true;
  }

  /** Whether a result has been converted to all that is asked for, as far as that was possible. */
  #isConverted({ conversion }: CaseRecord): boolean {
    return (this.options.conversion?.formats ?? []).every((format) => conversion?.as.includes(format));
  }

  async #runAll(left: readonly FoundCase[]): Promise<void> {
    const { connection } = this;
    const { atMost } = this.options;
    const most = Math.max(1, Math.min(atMost, this.terms.maxJobs ?? atMost));
    const [caseTurns, jobTurns] = [new Turns(most + mostFetching), new Turns(most)];
    const interruption = connection.signal ?? new AbortController().signal;
    const running: Promise<void>[] = [];
    for (const each of left) {
      if (this.#stop.signal.aborted) break;
      const endTurn = await caseTurns.take(interruption).catch(() => null);
      // The next case is read while those before it are computed.
      const prepared = endTurn && (await this.#prepare(each));
      const release = prepared && (await jobTurns.take(interruption).catch(() => null));
      if (!prepared || !release || this.#stop.signal.aborted) {
        release?.();
        endTurn?.();
        continue;
      }
      const task = this.#compute(prepared, release).finally(() => {
        release();
        endTurn?.();
      });
      running.push(task);
    }
    await Promise.all(running);
    if (connection.signal?.aborted) this.#fault = { error: this.#interrupted(connection.signal.reason) };
  }

  /** Reads the inputs of a case. Null if it is done, or failed. */
  async #prepare(found: FoundCase): Promise<Prepared | null> {
    const { name, files, fault } = found;
    this.#table.change(name, { status: 'reading' });
    try {
      if (fault !== null) throw new UsageError(fault);
      const stamp = stampOfInputs(files);
      const inputs = await hashInputs(files, this.connection.signal);
      const digest = digestOf(inputs);
      this.directory.looks.note(name, { stamp, digest });
      const key = keyOf(this.#computation, digest);
      const record = this.directory.record(name) ?? this.directory.takeBack(name, key);
      const how = this.options.verifies ? 'verify' : 'read';
      const outputs =
        record && digestOf(record.inputs) === digest
          ? await this.directory.stateOfOutputs(name, record, how)
          : null;
      const isLeft = outputs === 'edited' && !this.options.recomputes;
      if (record && (isLeft || (outputs === 'intact' && record.key === key && this.#isConverted(record)))) {
        await this.#done(record, name, false);
        return null;
      }
      this.directory.checkReplaceable(name, this.options.isForced);
      // Until its turn comes.
      this.#table.change(name, { status: 'waiting' });
      return { found, inputs, key, stamp };
    } catch (error) {
      // The file is named by the system's words.
      const isOfFile = isSystemError(error) && !this.connection.signal?.aborted;
      await this.#failed(
        found,
        isOfFile ? new UsageError(`It cannot be read: ${(error as Error).message}`) : error,
      );
      return null;
    }
  }

  /**
   * Computes a case: sends it, or goes on with the job that an earlier command sent.
   * @param release called when the job has ended
   */
  async #compute({ found, inputs, key, stamp }: Prepared, release: () => void): Promise<void> {
    const { connection, submission, terms, app } = this;
    const { wait, killTimeout, clientVersion, isForced, watcher } = this.options;
    const { name, files } = found;
    const reporter = new LastLine(watcher.reporterOf(name));
    const before = this.#known.get(name, key);
    try {
      const { received: record } = await runCase(
        connection,
        {
          submission,
          found: files,
          terms,
          outgoing: this.preparation.outgoing(files, this.numbers.get(name)),
        },
        {
          reporter,
          imaging: this.options.imaging,
          killTimeout,
          wait,
          many: {
            key,
            stamp,
            attempt: before ? before.attempt + (before.isOver ? 1 : 0) : 1,
            jobId: before?.isOver ? undefined : before?.jobId,
            stop: this.#stop.signal,
          },
          onSending: () => {
            // That of an earlier attempt.
            reporter.text = '';
            this.#table.change(name, { status: 'sending' });
          },
          onAccepted: (jobId, attempt) => {
            this.#owners.take(jobId, name, key);
            this.#known.set(name, { key, attempt, jobId, isOver: false });
          },
          onRunning: (jobId) => this.#table.change(name, { status: 'running', jobId }),
          receive: (fetch) => {
            release();
            this.#table.change(name, { status: 'fetching' });
            return this.directory.receive(name, { digest: digestOf(inputs), isForced }, (directory) =>
              fetch({ directory, taken: 'replace', isPrivate: true }),
            );
          },
          record: async (jobId, directory, log) => {
            const job = await askPatiently(connection, jobId, reporter).catch(() => null);
            this.#server ??= serverFacts(connection);
            const facts = {
              computation: this.#computation,
              inputs,
              app,
              server: await this.#server,
              clientVersion,
            };
            const { imaging, conversion: request } = this.options;
            const converting = request && { imaging, request, found: files, reporter };
            await writing(directory, goOnLater, () =>
              recordResult(directory, { ...facts, job, jobId, log }, connection.signal, converting),
            );
          },
        },
      );
      if (record) await this.#done(record, name, true);
    } catch (error) {
      const last = this.#known.get(name, key);
      const isFetching = this.#table.with('fetching').some((each) => each.name === name);
      if (error instanceof JobFailed && last) this.#known.set(name, { ...last, isOver: true });
      else if (connection.signal?.aborted && last && !last.isOver && !isFetching) this.#leftJobs += 1;
      await this.#failed(found, error, reporter.text);
    }
  }

  async #done(record: CaseRecord, name: string, isNew: boolean): Promise<void> {
    this.#owners.know(record.job_id, name, record.key);
    this.#table.change(name, { ...(await stateOfResult(this.directory, name, record)), isNew });
  }

  /**
   * A case has failed, or the command stops, by its error or by an interruption.
   * @param lastLine of its app
   */
  async #failed(found: FoundCase, error: unknown, lastLine = ''): Promise<void> {
    const { name } = found;
    const { signal } = this.connection;
    if (signal?.aborted) {
      this.#stop.abort();
      this.#table.change(name, { status: 'waiting' });
    } else if (this.#stop.signal.aborted && error instanceof JobFailed && error.state === 'killed') {
      this.#table.change(name, { status: 'waiting', jobId: null });
    } else if (!(error instanceof ClientError) || concernsAllCases(error)) {
      this.#table.change(name, { status: 'waiting' });
      this.#stopWith(error);
    } else {
      const about = await aboutEarlierResult(this.directory, found, this.#computation, signal).catch(
        (cause: unknown) => {
          this.#stopWith(new WriteError(this.directory.directoryOf(name), cause, goOnLater));
          return '';
        },
      );
      this.#table.change(name, { status: 'failed', reason: withMore(reasonOf(error, lastLine), about) });
      if (this.options.failsFast) await this.#stopJobs();
    }
  }

  /** No other case is begun, and the command ends with this error once those that run have ended. */
  #stopWith(error: unknown): void {
    this.#stop.abort();
    this.#fault ??= { error };
  }

  /** No other case is begun, and the jobs of those that run are killed. */
  async #stopJobs(): Promise<void> {
    if (this.#stop.signal.aborted) return;
    this.#stop.abort();
    const kills = this.#table
      .with('running')
      .map(({ jobId }) => jobId && kill(this.connection, jobId, this.options.killTimeout));
    await Promise.allSettled(kills);
  }

  #interrupted(reason: unknown): unknown {
    if (!(reason instanceof Interrupted)) return reason;
    const done = this.#table.with('done').length + this.#table.with('edited').length;
    const left = this.#leftJobs;
    const jobs = `; ${counted(left, 'job')} ${left === 1 ? 'goes' : 'go'} on on the server`;
    return reason.with(
      `${done} of ${counted(this.cases.length, 'case')} are done${reason.leavesJob && left > 0 ? jobs : ''}; ` +
        'the same command goes on with the others',
    );
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
  const { output } = options;
  if (options.layout === 'bids') checkDerivatives(output, submission.app);
  const terms = await preflight(connection, submission);
  const app = await describeApp(connection, submission.app, options.reporter);
  const { cases, layout } = await findCasesToSend(submission, options, app, connection.signal);
  const preparation = await options.imaging.prepare(
    cases.map(({ files }) => files),
    { ...options, requiresDeidentified: terms.requiresDeidentified, server: connection.server },
    options.reporter,
  );
  using directory = await writing(output, goOnLater, () => CohortDirectory.open(output, layout));
  if (layout instanceof BidsLayout) {
    layout.plan(cases, submission.app);
    await writing(output, goOnLater, async () => describeDerivatives(output, submission.app, app, options));
  }
  const others = await otherCases(directory, new Set(cases.map(({ name }) => name)));
  const names = cases.map(({ name }) => name);
  const numbers = await writing(output, goOnLater, async () =>
    preparation.note ? numberedCases(output, names, { isWritten: true }) : new Map<string, number>(),
  );
  const cohort = new Cohort(
    connection,
    submission,
    options,
    cases,
    directory,
    terms,
    app,
    others,
    preparation,
    numbers,
  );
  // Awaited here: the directory is locked until the function returns.
  return await cohort.run();
}
