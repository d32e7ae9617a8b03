import path from 'node:path';
import { counted } from '../../contract/index.js';
import { isSystemError, TimeSlice, Turns } from '../../files/index.js';
import {
  areInputsUntouched,
  type CaseRecord,
  digestOf,
  hashInputs,
  inputStampToRecord,
  keyOf,
  type Preparation,
  type RecordedInput,
  type ServerFacts,
  serverFacts,
  stampOfInputs,
} from '../case/index.js';
import { kill } from '../connection/index.js';
import { ClientError, Interrupted, JobFailed, UsageError } from '../errors.js';
import type { FoundCase } from '../found-files.js';
import { type CasePlace, checkPlace, type PlacedRecord } from './case-place.js';
import { CaseRun, type PreparedCase, type RunContext } from './case-run.js';
import {
  aboutEarlier,
  concernsAllCases,
  LastLine,
  reasonOf,
  upgraded,
  VersionUnknown,
  withMore,
} from './failures.js';
import { JobCases, KnownJobs } from './known-jobs.js';
import type { ResultsDirectory } from './results-directory.js';
import { type CaseState, CaseTable, stateOfResult } from './table.js';

/** Maximum number of results that are fetched while the maximum number of jobs runs. */
const maxFetching = 4;

/** The outcome of a cohort. */
export interface CohortSummary {
  readonly output: string;
  /** Absolute path of the table. */
  readonly table: string;
  readonly cases: readonly CaseState[];
  /** Names of the rows whose input was not found. */
  readonly orphaned: readonly string[];
  /** Other notes about the table, as sentences without a full stop. */
  readonly notes: readonly string[];
}

/** The inputs of a cohort run. */
interface CohortWork
  extends Pick<
    RunContext,
    'connection' | 'submission' | 'options' | 'terms' | 'results' | 'computation' | 'currentVersion'
  > {
  readonly cases: readonly FoundCase[];
  readonly placeOf: (foundCase: FoundCase) => CasePlace;
  /** The records of all existing results. */
  readonly records: readonly PlacedRecord[];
  /** The table rows that belong to no case of this command. */
  readonly others: readonly CaseState[];
  /** How the files are prepared for sending (de-identified or not). */
  readonly preparation: Preparation;
  /** The cases' numbers for their neutral names. */
  readonly numbers: ReadonlyMap<string, number>;
}

/** A queue of cases, of which some run at once. */
export class Cohort {
  readonly #table: CaseTable;
  readonly #known: KnownJobs;
  readonly #context: RunContext;
  /** Aborted when no further case may be started. */
  readonly #stop = new AbortController();
  /** The error that the command throws once it has stopped. */
  #fault: { readonly error: unknown } | undefined;
  /** Jobs that ran when the command was interrupted. */
  #runningJobs = 0;
  readonly #jobCases = new JobCases();
  /** Versions of the app that jobs of this command ran. */
  readonly #versions = new Set<string>();

  constructor(private readonly work: CohortWork) {
    const { cases, others, options, results } = work;
    this.#known = new KnownJobs(path.join(results.own, 'jobs.jsonl'));
    for (const { name, record } of work.records) this.#jobCases.remember(record.job_id, name, record.key);
    this.#table = new CaseTable(cases, others, results.directory, options.watcher, (error) =>
      this.#stopWith(error),
    );
    let server: Promise<ServerFacts> | undefined;
    this.#context = {
      ...work,
      table: this.#table,
      known: this.#known,
      jobCases: this.#jobCases,
      stop: this.#stop.signal,
      server: () => {
        server ??= serverFacts(work.connection);
        return server;
      },
      checkVersions: (versions) => this.#checkVersions(versions),
    };
  }

  async run(): Promise<CohortSummary> {
    const { cases, options, others } = this.work;
    const remaining: FoundCase[] = [];
    const slice = new TimeSlice();
    for (const each of cases) {
      await slice.pause();
      if (!(await this.#reuseByTimes(each))) remaining.push(each);
    }
    options.watcher.began(this.#table.states);
    this.#table.write();
    try {
      await this.#runAll(remaining);
      if (this.#fault) throw this.#fault.error;
    } finally {
      this.#table.write();
      this.#known.close(new Set(this.#table.inState('done').map(({ name }) => name)));
    }
    const orphaned = others.filter(({ status }) => status === 'orphaned').map(({ name }) => name);
    const { file: table, states, notes } = this.#table;
    return { output: path.resolve(options.output), table, cases: states, orphaned, notes };
  }

  /**
   * Reuses the result of a case if the file times show, without reading the files, that it is up to date. @returns whether the
   * case is done
   */
  async #reuseByTimes(foundCase: FoundCase): Promise<boolean> {
    const record = this.work.results.readRecord(this.work.placeOf(foundCase));
    if (!record || !areInputsUntouched(foundCase.files, record.stamps.inputs)) return false;
    return this.#reuseIfDone(foundCase, record, digestOf(record.inputs));
  }

  /**
   * Reuses a result if it belongs to the case: it has the same key, and all its outputs exist. Outputs that the user has edited
   * are kept.
   * @param digest of the inputs
   * @returns whether the case is done
   */
  async #reuseIfDone(foundCase: FoundCase, record: CaseRecord, digest: string): Promise<boolean> {
    const { options, computation, results, placeOf } = this.work;
    if (options.isForced) return false;
    const wanted = options.keepsVersion
      ? { ...computation, app_version: record.app_version, checkpoints: record.checkpoints }
      : computation;
    if (record.key !== keyOf(wanted, digest)) return false;
    // `as` lists the requested formats, so that formats that could not be converted count too.
    if (!(options.conversion?.formats ?? []).every((format) => record.conversion?.as.includes(format)))
      return false;
    const compared = results.compare(placeOf(foundCase), record);
    if ((await compared).isMissing) return false;
    if (record.app_version !== null) this.#versions.add(record.app_version);
    await this.#done(record, foundCase, false, compared);
    return true;
  }

  async #runAll(remaining: readonly FoundCase[]): Promise<void> {
    const { connection, options, terms } = this.work;
    const maxJobs = Math.max(1, Math.min(options.maxJobs, terms.maxJobs ?? options.maxJobs));
    const [caseTurns, jobTurns] = [new Turns(maxJobs + maxFetching), new Turns(maxJobs)];
    const interruption = connection.signal ?? new AbortController().signal;
    const running: Promise<void>[] = [];
    for (const each of remaining) {
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
  async #prepare(foundCase: FoundCase): Promise<PreparedCase | null> {
    const { name, files, fault } = foundCase;
    const { connection, results, options, computation, preparation, numbers } = this.work;
    this.#table.change(name, { status: 'reading' });
    try {
      if (fault !== null) throw new UsageError(fault);
      const [stamp, recordedStamp] = [stampOfInputs(files), inputStampToRecord(files)];
      const inputs = await hashInputs(files, connection.signal);
      const place = this.work.placeOf(foundCase);
      const record = results.readRecord(place);
      if (record && (await this.#reuseIfDone(foundCase, record, digestOf(inputs)))) return null;
      checkPlace(results.directory, place, options.isForced);
      // It waits for its turn.
      this.#table.change(name, { status: 'waiting' });
      const outgoing = preparation.outgoing(files, numbers.get(name));
      const key = keyOf(computation, digestOf(inputs));
      return { foundCase, place, outgoing, inputs, key, stamp, recordedStamp };
    } catch (error) {
      // The system's message names the file.
      const isOfFile = isSystemError(error) && !connection.signal?.aborted;
      const why = isOfFile ? new UsageError(`It cannot be read: ${(error as Error).message}`) : error;
      await this.#failed(foundCase, why);
      return null;
    }
  }

  /** @param release called when the job has ended */
  async #compute(prepared: PreparedCase, release: () => void): Promise<void> {
    const { foundCase, inputs, key } = prepared;
    const { connection, options } = this.work;
    const { name } = foundCase;
    const reporter = new LastLine(options.watcher.reporterOf(name));
    try {
      const record = await new CaseRun(this.#context, prepared, reporter, release).run();
      const isUnknown = record?.app_version === null && this.work.computation.app_version !== null;
      if (isUnknown && !options.keepsVersion) throw new VersionUnknown();
      if (record) await this.#done(record, foundCase, true);
    } catch (error) {
      const last = this.#known.get(name, key);
      const isFetching = this.#table.inState('fetching').some((each) => each.name === name);
      if ((error instanceof JobFailed || error instanceof VersionUnknown) && last)
        this.#known.set(name, { ...last, isOver: true });
      else if (connection.signal?.aborted && last && !last.isOver && !isFetching) this.#runningJobs += 1;
      await this.#failed(foundCase, error, { lastLine: reporter.text, inputs });
    }
  }

  async #done(
    record: CaseRecord,
    foundCase: FoundCase,
    isNew: boolean,
    compared?: ReturnType<ResultsDirectory['compare']>,
  ): Promise<void> {
    const { results, placeOf } = this.work;
    this.#jobCases.remember(record.job_id, foundCase.name, record.key);
    const state = await stateOfResult(results, placeOf(foundCase), record, compared);
    this.#table.change(foundCase.name, { ...state, isNew });
  }

  /**
   * Starts no further case once jobs of two versions of the app may have run.
   * @param versions that a job may have run: the one that the server recorded, or two if the server recorded that the version
   *   is unknown
   */
  #checkVersions(versions: readonly (string | null | undefined)[]): void {
    const { computation, options } = this.work;
    if (options.keepsVersion) return;
    for (const each of versions) if (each != null) this.#versions.add(each);
    const [earlier, now] = [...this.#versions];
    if (earlier === undefined || now === undefined) return;
    const old = this.#table.inState('done').flatMap((each) => (each.version === earlier ? earlier : []));
    // The next result is from the earlier version, unless its version is unknown.
    const coming = versions.length === 1 ? [earlier] : [];
    this.#stopWith(upgraded(computation.app, now, old.length > 0 ? old : coming));
  }

  /**
   * Records that a case failed, or that the command stops because of its error or an interruption.
   * @param known the last line of the app, and the inputs if they were read
   */
  async #failed(
    foundCase: FoundCase,
    error: unknown,
    known: { readonly lastLine: string; readonly inputs: readonly RecordedInput[] } | null = null,
  ): Promise<void> {
    const { name } = foundCase;
    const { results, placeOf, computation } = this.work;
    if (this.work.connection.signal?.aborted) {
      this.#stop.abort();
      this.#table.change(name, { status: 'waiting' });
    } else if (this.#stop.signal.aborted && error instanceof JobFailed && error.state === 'killed') {
      this.#table.change(name, { status: 'waiting', jobId: null });
    } else if (!(error instanceof ClientError) || concernsAllCases(error)) {
      this.#table.change(name, { status: 'waiting' });
      this.#stopWith(error);
    } else {
      const reason = withMore(
        reasonOf(error, known?.lastLine ?? ''),
        aboutEarlier(results.readRecord(placeOf(foundCase)), computation, known?.inputs),
      );
      this.#table.change(name, {
        status: 'failed',
        reason,
        kind: error instanceof JobFailed ? error.facts.kind : null,
      });
      if (this.work.options.failsFast) await this.#stopJobs();
    }
  }

  /** Starts no further case. The command ends with this error once the running cases have ended. */
  #stopWith(error: unknown): void {
    this.#stop.abort();
    this.#fault ??= { error };
  }

  /** Starts no further case, and kills the running jobs. */
  async #stopJobs(): Promise<void> {
    if (this.#stop.signal.aborted) return;
    this.#stop.abort();
    const kills = this.#table
      .inState('running')
      .map(({ jobId }) => jobId && kill(this.work.connection, jobId, this.work.options.killTimeout));
    await Promise.allSettled(kills);
  }

  #interrupted(reason: unknown): unknown {
    if (!(reason instanceof Interrupted)) return reason;
    const done = this.#table.inState('done').length;
    const running = this.#runningJobs;
    const jobs = `; ${counted(running, 'job')} ${running === 1 ? 'is' : 'are'} still running on the server`;
    return reason.with(
      `${done} of ${counted(this.work.cases.length, 'case')} done${reason.leavesJob && running > 0 ? jobs : ''}; ` +
        'the same command continues with the others',
    );
  }
}
