import path from 'node:path';
import type { AcceptedJob, FinishedJob, JobOptions } from '../../client/case/index.js';
import { app as appOf, type Connection } from '../../client/connection/index.js';
import { UsageError, withResumeHint } from '../../client/errors.js';
import type { DeidentifyChoice } from '../../client/outgoing.js';
import type { Destination } from '../../client/result/index.js';
import type { Submission } from '../../client/submission.js';
import { exitCodes, type OperationName, operationOf } from '../../contract/index.js';
import { monotonicTime } from '../../files/index.js';
import { chooseApp, suggestingApp } from '../apps/index.js';
import { ClientCommand, deidentifyChoice, type Settings } from '../command/index.js';
import {
  isToStdout,
  type Kept,
  keepCommand,
  keptForLong,
  keptOf,
  outputDirectory,
  readDestination,
  type SentCommand,
  tellKept,
} from '../jobs/index.js';
import { loadShowCases } from '../show/index.js';
import { selectionOf } from './choose-files.js';
import { seriesChoice } from './choose-series.js';
import type { DryRunDocument } from './dry-run.js';
import type { EachDocument } from './each.js';
import { commandWords } from './earlier-commands.js';
import type { EndedCommand } from './on-end.js';
import { conversionOf, type ParsedSubmit } from './submit-flags.js';

/** The outcome of a submission: a finished job, with `--detach` an accepted one, and with `--each` the outcomes of the cases. */
export type Submitted = ((FinishedJob | AcceptedJob) & Kept) | EachDocument | DryRunDocument;

/** A job that is about to be sent. */
interface JobToStart {
  readonly connection: Connection;
  readonly submission: Submission;
  readonly flags: ParsedSubmit['flags'];
  readonly options: JobOptions;
  readonly command: SentCommand;
}

/** The directory for results; files already in it are not sent. */
const resultsDirectory = (flags: ParsedSubmit['flags']): string =>
  outputDirectory(isToStdout(flags) ? { force: false } : flags).directory;

/** A command that runs one operation: from the command line to the result on this machine. */
export abstract class SubmitCommand extends ClientCommand {
  /** Runs the command of `--on-end`. */
  #onEnd: ((ended: EndedCommand) => Promise<string | null>) | undefined;
  readonly #startedAt = monotonicTime();
  /** What is known so far for the document of that command. */
  readonly #ended: Pick<EndedCommand, 'app' | 'job_id' | 'cases'> = { app: null, job_id: null, cases: null };

  protected override async finally(error: Error | undefined): Promise<void> {
    await super.finally(error);
    if (this.#onEnd === undefined) return;
    const ended = {
      command: this.id ?? '',
      ...this.#ended,
      exit_code: this.io.exitCode,
      seconds: Math.round((monotonicTime() - this.#startedAt) / 1000),
    };
    const problem = await this.#onEnd(ended);
    if (problem !== null) this.io.writeErr(`The command of --on-end failed: ${problem}\n`);
  }

  /**
   * Loads everything that `--show` and `--on-end` need at the end. The end may be hours away, and the program may have been
   * upgraded by then.
   */
  async #loadForEnd({ 'on-end': command, show }: ParsedSubmit['flags']): Promise<void> {
    if (show) await loadShowCases();
    if (command === undefined) return;
    const { runOnEnd } = await import('./on-end.js');
    this.#onEnd = (ended) => runOnEnd(command, ended, this.io);
  }

  protected async submit(name: OperationName, { flags, args, raw }: ParsedSubmit): Promise<Submitted> {
    await this.#loadForEnd(flags);
    this.jsonLines = flags.watch ?? false;
    const settings = await this.settings(flags);
    const deidentify = deidentifyChoice(flags, settings, this.typed, this.config.configDir);
    const { readSubmission } = await import('./read-submission.js');
    // Checked first, because a mistake in a flag can be found without a server.
    const read = await readSubmission(name, { flags, paths: args.paths ?? [], words: raw });
    const submission = { ...read, allFiles: flags['all-files'], selection: selectionOf(flags) };
    if (flags['dry-run']) return this.#dryRun(submission, flags, deidentify);
    if (flags.each) return this.#submitEach(submission, flags, settings, deidentify);
    const connection = await this.connectTo(settings, flags, true);
    const options = await this.#jobOptions(submission, flags, deidentify);
    const destination = flags.detach ? null : await readDestination(flags, this.io, this.jsonEnabled());
    const app = await this.#chooseApp(connection, settings.app);
    const command = this.#commandOf(name, raw, {
      server: settings.server,
      profile: flags.profile || undefined,
      app,
      // `retry` must use the mode that the environment and the profile select now.
      ...(deidentify.mode === null ? {} : { deidentify: deidentify.mode }),
    });
    const job = { connection, submission: { ...submission, app }, flags, options, command };
    const run = async () => (destination ? this.#runJob(job, destination) : this.#detachJob(job));
    return suggestingApp<Submitted>(connection, app, run, settings.appNamedBy);
  }

  async #jobOptions(
    { files }: Pick<Submission, 'files'>,
    flags: ParsedSubmit['flags'],
    deidentify: DeidentifyChoice,
  ): Promise<JobOptions> {
    const { imaging } = await import('../../imaging/index.js');
    const reporter = await this.reporter({
      stdoutIsTaken: this.jsonEnabled() || (isToStdout(flags) && !flags.detach),
    });
    const isOneGroup = files.flatMap(({ groups }) => groups).length === 1;
    const mayAsk = isOneGroup && !flags.yes && !this.jsonEnabled();
    const conversion = conversionOf(flags);
    if (conversion && isToStdout(flags))
      throw new UsageError('--as writes files beside the result: name a directory with -o');
    return {
      imaging,
      reporter,
      output: resultsDirectory(flags),
      chooseSeries: seriesChoice(flags.series, this.io, { mayAsk }),
      deidentify,
      conversion,
      clientVersion: this.config.version,
      wait: flags.wait,
      killTimeout: flags['kill-timeout'],
    };
  }

  /** This command as `retry` repeats it. */
  #commandOf(
    name: OperationName,
    raw: ParsedSubmit['raw'],
    configured: Readonly<Record<string, string | undefined>>,
  ): SentCommand {
    const flags = Object.entries(this.ctor.flags);
    const booleans = new Set(flags.flatMap(([flag, { type }]) => (type === 'boolean' ? [flag] : [])));
    const words = commandWords(raw, configured, booleans);
    return { command: operationOf(name).command, directory: process.cwd(), words };
  }

  #accepted(jobId: string, command: SentCommand): void {
    this.#ended.job_id = jobId;
    keepCommand(this.config.configDir, jobId, command);
  }

  /** Runs a job until it ends, and fetches its result to this machine. */
  async #runJob(
    { connection, submission, flags, options, command }: JobToStart,
    destination: Destination,
  ): Promise<FinishedJob & Kept> {
    const { sendJob, finishJob } = await import('../../client/case/index.js');
    const { reporter, output } = options;
    using job = await sendJob(connection, submission, options, destination, (id) =>
      this.#accepted(id, command),
    );
    // Reported at once, even if the server's log does not say it.
    reporter.note(`Job ${job.id} is accepted: ${submission.operation.command} on ${submission.app}`);
    await tellKept(connection, job.id, reporter, flags.keep !== undefined);
    const finished = await finishJob(connection, job, options, destination);
    const problems = finished.conversion?.problems ?? [];
    for (const problem of problems) reporter.note(problem);
    if (problems.length > 0) this.io.exitCode = exitCodes.failed;
    const kept = keptOf(await tellKept(connection, job.id, reporter, false));
    if (flags.show && 'output' in finished && this.io.stdout.isTTY && !this.jsonEnabled()) {
      const { showResult } = await loadShowCases();
      const sent = submission.files.flatMap(({ groups }) => groups.flat());
      await showResult(sent, { result: finished.output, output }, () => appOf(connection, submission.app), {
        io: this.io,
        reporter,
        signal: this.interruption,
      });
    }
    return { ...finished, ...kept };
  }

  /** Sends a job that nobody waits for. */
  async #detachJob({
    connection,
    submission,
    flags,
    options,
    command,
  }: JobToStart): Promise<AcceptedJob & Kept> {
    const { sendJob } = await import('../../client/case/index.js');
    using job = await sendJob(connection, keptForLong(submission), options, null, (id) =>
      this.#accepted(id, command),
    );
    await this.print([job.id]).catch((error: unknown) => {
      throw withResumeHint(connection, job.id, error);
    });
    await job.inputs.read();
    const view = await tellKept(connection, job.id, options.reporter, true);
    if (flags['time-limit'] !== undefined && view?.time_limit === null)
      options.reporter.note(
        `${connection.server} does not know --time-limit: job ${job.id} may run for longer`,
      );
    return { ...job.envelope, ...job.sent, ...keptOf(view) };
  }

  async #dryRun(
    submission: Omit<Submission, 'app'>,
    flags: ParsedSubmit['flags'],
    deidentify: DeidentifyChoice,
  ): Promise<DryRunDocument> {
    const { dryRun } = await import('./dry-run.js');
    return dryRun(submission, {
      deidentify,
      isEach: flags.each ?? false,
      skipsIncomplete: flags['skip-incomplete'] ?? false,
      series: flags.series,
      output: path.resolve(resultsDirectory(flags)),
      io: this.io,
      json: this.jsonEnabled(),
      signal: this.interruption,
    });
  }

  async #chooseApp(connection: Connection, named: string | undefined): Promise<string> {
    const app = await chooseApp(connection, named);
    this.#ended.app = app;
    return app;
  }

  /** One job for each case. */
  async #submitEach(
    submission: Omit<Submission, 'app'>,
    flags: ParsedSubmit['flags'],
    settings: Settings,
    deidentify: DeidentifyChoice,
  ): Promise<EachDocument> {
    const { outputOfEach, runEach } = await import('./each.js');
    const output = outputOfEach(flags);
    const connection = await this.connectTo(settings, flags, true);
    const app = await this.#chooseApp(connection, settings.app);
    const run = async () => {
      const about = { output, clientVersion: this.config.version, deidentify };
      const cases = { ...submission, app };
      const document = await runEach(connection, cases, flags, this.io, this.jsonEnabled(), about);
      const count = (wanted: string) => document.cases.filter(({ status }) => status === wanted).length;
      this.#ended.cases = { done: count('done'), failed: count('failed'), left: count('waiting') };
      return document;
    };
    return suggestingApp(connection, app, run, settings.appNamedBy);
  }
}
