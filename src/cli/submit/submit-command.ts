import path from 'node:path';
import type { Interfaces } from '@oclif/core';
import * as Args from '@oclif/core/args';
import * as Flags from '@oclif/core/flags';
import type { FinishedJob, StartedJob } from '../../client/case/index.js';
import { app as appOf, type Connection } from '../../client/connection/index.js';
import { UsageError, withResumeHint } from '../../client/errors.js';
import type { DeidentifyChoice } from '../../client/outgoing.js';
import type { Submission } from '../../client/submission.js';
import {
  exitCodes,
  type Field,
  type FieldKind,
  flagName,
  isOfService,
  isTyped,
  type OperationName,
  operationOf,
} from '../../contract/index.js';
import { monotonicTime } from '../../files/index.js';
import { chooseApp, naming } from '../apps/index.js';
import {
  appFlag,
  ClientCommand,
  type ConnectionFlags,
  deidentifyChoice,
  deidentifyFlags,
  killTimeoutFlag,
  noZipFlag,
  outputFlags,
  type Settings,
  waitFlag,
} from '../command/index.js';
import {
  isToStdout,
  type Kept,
  keepCommand,
  keptForLong,
  keptOf,
  outputDirectory,
  readDestination,
  tellKept,
} from '../jobs/index.js';
import { loadShowCases } from '../show/index.js';
import { selectionFlags, selectionOf } from './choose-files.js';
import { seriesChoice, seriesFlags } from './choose-series.js';
import { type ConversionFlags, conversionFlags, conversionOf } from './conversion-flags.js';
import type { DryRunDocument } from './dry-run.js';
import type { EachDocument } from './each.js';
import { type EachFlags, eachFlags } from './each-flags.js';
import { commandWords } from './earlier-commands.js';
import type { EndedCommand } from './on-end.js';
import type { Word } from './path-order.js';

/** The placeholder of a value in help texts, by the field's kind. */
const placeholders: Readonly<Record<FieldKind, string>> = {
  files: 'PATH[,PATH]',
  archive: 'PATH',
  integer: 'N',
  number: 'X',
  boolean: '',
  name: 'NAME',
  path: 'FILE',
  paths: 'NAME[,NAME]',
  gpus: 'ID[,ID]',
  integers: 'N[,N]',
  overrides: 'NAME=VALUE',
  text: 'TEXT',
  duration: 'TIME',
};

/** Whether people use a field's flag often: these head the help, in the order in which they are named here. */
const often = ['inputs', 'gt', 'mask', 'dataset', 'gpu', 'cpu', 'config_overrides'];

/** The section of the help text that lists a field's flag. */
function helpGroup(field: Field): { helpGroup?: string } {
  if (often.includes(field.name)) return {};
  return { helpGroup: isOfService(field) ? 'JOB' : 'APP' };
}

/** The form's spelling of a flag, with underscores. */
function aliases(field: Field): string[] {
  const name = flagName(field);
  return field.name === name ? [] : [field.name];
}

/**
 * The flag of one field. Its value stays text here: contract/values.ts parses it, as on the server. A repeatable flag takes
 * one value each time, so that it never takes a path that follows it.
 */
function fieldFlag(field: Field, fields: readonly Field[]): Interfaces.Flag<unknown> {
  const known = field.default === undefined ? '' : ` [default: ${field.default}]`;
  const shared = {
    aliases: aliases(field),
    exclusive: fields.filter(({ name }) => name === field.alternative).map(flagName),
    description: field.help + known,
    ...helpGroup(field),
    ...(field.char ? { char: field.char as Interfaces.AlphabetLowercase } : {}),
  };
  if (field.kind === 'boolean')
    return Flags.boolean({ ...shared, allowNo: true }) as Interfaces.Flag<unknown>;
  const helpValue = placeholders[field.kind];
  const repeats = field.kind === 'files' || field.kind === 'overrides';
  return (
    repeats
      ? Flags.string({ ...shared, helpValue, multiple: true, multipleNonGreedy: true })
      : Flags.string({ ...shared, helpValue })
  ) as Interfaces.Flag<unknown>;
}

/** The flags of an operation: one for each field in the operations table that a person sets, and no other; those that people use often come first. */
function operationFlags(name: OperationName): Record<string, Interfaces.Flag<unknown>> {
  const fields = operationOf(name).fields.filter(isTyped);
  const known = often.flatMap((each) => fields.filter((field) => field.name === each));
  return Object.fromEntries(
    [...new Set([...known, ...fields])].map((field) => [flagName(field), fieldFlag(field, fields)]),
  );
}

/** Moves a less common flag to a later section of the help. */
const less = <T extends object>(flag: T): T => ({ ...flag, helpGroup: 'JOB' });

/** The flags that choose which files of directories are sent. */
export const sendingFlags = {
  'all-files': Flags.boolean({
    default: false,
    helpGroup: 'JOB',
    description: 'Also send files that are not volumes: .json, .bval, .tsv, .txt, README and the like',
  }),
  ...seriesFlags,
  ...selectionFlags,
};

/** What every submission takes besides the fields of its operation. */
export const runFlags = {
  ...outputFlags,
  force: less(outputFlags.force),
  'no-zip': less(noZipFlag),
  wait: less(waitFlag),
  'kill-timeout': less(killTimeoutFlag),
  ...sendingFlags,
  ...deidentifyFlags,
  'dry-run': Flags.boolean({
    helpGroup: 'PRIVACY',
    description:
      'Print what would leave this machine: files, names, what is kept and removed, sizes. Sends nothing, and needs no server',
  }),
  yes: Flags.boolean({
    char: 'y',
    helpGroup: 'JOB',
    description: 'Ask nothing: of a directory with several DICOM series send all',
  }),
  detach: Flags.boolean({
    // These flags concern the result, which --detach does not fetch.
    exclusive: ['output', 'force', 'wait', 'no-zip'],
    description: "Print the job's id alone and return at once; asks for '--keep max' unless --keep is given",
  }),
  'on-end': Flags.string({
    helpGroup: 'JOB',
    helpValue: 'COMMAND',
    exclusive: ['detach'],
    description:
      'Command that a shell runs when this one has ended, whatever came of it, with a JSON document about it on stdin',
  }),
};

/** Draws the result on a terminal. */
export const showFlag = {
  show: Flags.boolean({
    helpGroup: 'JOB',
    exclusive: ['detach', 'each'],
    description: "On a terminal, draw the scans with the result at the end, as 'remote-app show' does",
  }),
};

type RunFlags = Interfaces.InferredFlags<typeof runFlags & { app: typeof appFlag }>;

/** The parsed command line of an operation. */
export interface ParsedSubmit {
  readonly flags: ConnectionFlags &
    RunFlags &
    ConversionFlags &
    Partial<EachFlags> &
    Readonly<Record<string, unknown>>;
  readonly args: { readonly paths?: readonly string[] | undefined };
  /** Flags and arguments, in their order. */
  readonly raw: readonly Word[];
}

/** All flags of an operation's command: those of its fields, and those that all operations share. */
export const submitFlags = (name: OperationName) => ({
  app: appFlag,
  ...operationFlags(name),
  ...runFlags,
  ...(operationOf(name).paths === 'dataSet' ? {} : { ...conversionFlags, ...eachFlags }),
});

/** The volumes: all arguments that are not flags. */
export const volumeArgs = {
  paths: Args.string({
    multiple: true,
    ignoreStdin: true,
    description: 'Files, patterns or directories; a DICOM series or a .zarr store is sent whole',
  }),
};

/** The data set of a fine-tuning. */
export const datasetArgs = {
  paths: Args.string({
    multiple: true,
    ignoreStdin: true,
    description: 'The data set: a directory, or a zip archive of one',
  }),
};

/** What a submission returns: a finished job, with `--detach` an accepted one, and with `--each` what became of the cases. */
export type Submitted = ((FinishedJob | StartedJob) & Kept) | EachDocument | DryRunDocument;

/** The directory of results: what is there is not sent along. */
const resultsDirectory = (flags: ParsedSubmit['flags']): string =>
  outputDirectory(isToStdout(flags) ? { force: false } : flags).directory;

/** A command that runs one operation: from the command line to the result on this machine. */
export abstract class SubmitCommand extends ClientCommand {
  /** Runs the command of `--on-end`. */
  #onEnd: ((ended: EndedCommand) => Promise<string | null>) | undefined;
  readonly #startedAt = monotonicTime();
  /** What is known so far of what that command is told. */
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
   * Loads what the flags for the end of this command need, which may be hours away: the program may be upgraded until then.
   */
  async #loadForEnd({ 'on-end': command, show }: ParsedSubmit['flags']): Promise<void> {
    if (show) await loadShowCases();
    if (command === undefined) return;
    const { runOnEnd } = await import('./on-end.js');
    this.#onEnd = (ended) => runOnEnd(command, ended, this.io);
  }

  protected async submit(name: OperationName, parsed: ParsedSubmit): Promise<Submitted> {
    const { flags, args, raw } = parsed;
    await this.#loadForEnd(flags);
    this.jsonLines = flags.watch ?? false;
    const settings = await this.settings(flags);
    const deidentify = deidentifyChoice(flags, settings, this.typed, this.config.configDir);
    const { readSubmission } = await import('./read-submission.js');
    // Checked first, because finding a mistake in a flag needs no server.
    const read = await readSubmission(name, { flags, paths: args.paths ?? [], words: raw });
    const submission = { ...read, allFiles: flags['all-files'], selection: selectionOf(flags) };
    if (flags['dry-run']) return this.#dryRun(submission, flags, deidentify);
    if (flags.each) return this.#submitEach(submission, flags, settings, deidentify);
    const connection = await this.connectTo(settings, flags, true);
    const [client, { imaging }] = await Promise.all([
      import('../../client/case/index.js'),
      import('../../imaging/index.js'),
    ]);
    const reporter = await this.reporter({
      stdoutIsTaken: this.jsonEnabled() || (isToStdout(flags) && !flags.detach),
    });
    const isOneGroup = read.files.flatMap(({ groups }) => groups).length === 1;
    const mayAsk = isOneGroup && !flags.yes && !this.jsonEnabled();
    const chooseSeries = seriesChoice(flags.series, this.io, { mayAsk });
    const conversion = conversionOf(flags);
    if (conversion && isToStdout(flags))
      throw new UsageError('--as writes files beside the result: name a directory with -o');
    const destination = flags.detach ? null : await readDestination(flags, this.io, this.jsonEnabled());
    const app = await this.#chooseApp(connection, settings.app);
    const output = resultsDirectory(flags);
    const onAccepted = (jobId: string) => {
      this.#ended.job_id = jobId;
      const { mode } = deidentify;
      const settled = {
        ...{ server: settings.server, profile: flags.profile || undefined, app },
        // What the environment and the profile say now must not be forgotten later.
        ...(mode === null ? {} : { deidentify: mode }),
      };
      const booleans = Object.entries(this.ctor.flags).flatMap(([flag, { type }]) =>
        type === 'boolean' ? [flag] : [],
      );
      keepCommand(this.config.configDir, jobId, {
        command: operationOf(name).command,
        directory: process.cwd(),
        words: commandWords(raw, settled, new Set(booleans)),
      });
    };
    const options = {
      imaging,
      reporter,
      output,
      chooseSeries,
      deidentify,
      conversion,
      clientVersion: this.config.version,
      wait: flags.wait,
      killTimeout: flags['kill-timeout'],
    };
    if (destination) {
      const tellAccepted = (id: string) => tellKept(connection, id, reporter, flags.keep !== undefined);
      const running = { destination, onAccepted, tellAccepted };
      const run = () => client.runJob(connection, { ...submission, app }, options, running);
      const finished = await naming(connection, app, run, settings.appNamedBy);
      const problems = finished.conversion?.problems ?? [];
      for (const problem of problems) reporter.note(problem);
      if (problems.length > 0) this.io.exitCode = exitCodes.failed;
      const kept = keptOf(await tellKept(connection, finished.job_id, reporter, false));
      if (flags.show && 'output' in finished && this.io.stdout.isTTY && !this.jsonEnabled()) {
        const { showResult } = await loadShowCases();
        const sent = submission.files.flatMap(({ groups }) => groups.flat());
        await showResult(sent, { result: finished.output, output }, () => appOf(connection, app), {
          io: this.io,
          reporter,
          signal: this.interruption,
        });
      }
      return { ...finished, ...kept };
    }
    const tellAccepted = (id: string) =>
      this.print([id]).catch((error: unknown) => {
        throw withResumeHint(connection, id, error);
      });
    const start = () =>
      client.startJob(connection, { ...keptForLong(submission), app }, options, { onAccepted, tellAccepted });
    const envelope = await naming(connection, app, start, settings.appNamedBy);
    const view = await tellKept(connection, envelope.job_id, reporter, true);
    if (flags['time-limit'] !== undefined && view?.time_limit === null) {
      reporter.note(
        `${connection.server} does not know --time-limit: job ${envelope.job_id} may run for longer`,
      );
    }
    return { ...envelope, ...keptOf(view) };
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
      const document = await runEach(connection, { ...submission, app }, flags, this.io, {
        output,
        json: this.jsonEnabled(),
        clientVersion: this.config.version,
        conversion: conversionOf(flags),
        deidentify,
      });
      const count = (wanted: string) => document.cases.filter(({ status }) => status === wanted).length;
      this.#ended.cases = { done: count('done'), failed: count('failed'), left: count('waiting') };
      return document;
    };
    return naming(connection, app, run, settings.appNamedBy);
  }
}
