import type { Config } from '@oclif/core';
import { Command } from '@oclif/core/command';
import * as Errors from '@oclif/core/errors';
import { leftText } from '../../client/connection/index.js';
import { ClientError, HttpError, JobFailed } from '../../client/errors.js';
import { counted, type ExitCode, exitCodes } from '../../contract/index.js';
import {
  type CommandIo,
  type ErrorDocument,
  forJson,
  formatDistance,
  formatTime,
  ioOf,
} from '../terminal/index.js';
import { FlagValueError, sentenceOf } from './usage-errors.js';

/** The exit code of a process that ends with this error. */
function exitCodeFor(error: unknown): number {
  if (error instanceof ClientError) return error.exitCode;
  if (error instanceof Errors.CLIError) return error.oclif.exit ?? exitCodes.usage;
  return exitCodes.failed satisfies ExitCode;
}

/** The time until which a job is kept, by the server's clock; null if the server does not say. */
export function keptUntil(expiresAt: string | null, now: number): string | null {
  return formatTime(expiresAt, (time) => formatDistance(time, now));
}

/** Hints that follow the error of a failed job. */
function hintsOfFailed({ jobId, facts }: JobFailed): string[] {
  const { expiresAt, leftFiles, now, fetch } = facts;
  const until = keptUntil(expiresAt, now);
  return [
    ...(leftFiles
      ? [`Job ${jobId} left ${leftText(leftFiles)}; ${fetch} fetches ${leftFiles === 1 ? 'it' : 'them'}`]
      : []),
    ...(until === null ? [] : [`Job ${jobId} is kept until ${until}`]),
  ];
}

/** What all commands share: one error handler, and `--json`, which makes stdout a single JSON document. */
export abstract class BaseCommand extends Command {
  static override enableJsonFlag = true;

  /** The streams, the environment and the exit code of this command. */
  protected readonly io: CommandIo;

  constructor(argv: string[], config: Config) {
    super(argv, config);
    this.io = ioOf(config);
  }

  /** Whether `--json` prints several documents, each on its own line. */
  protected jsonLines = false;

  /** Prints the document of `--json`. A command that has printed its own returns undefined. */
  override logJson(document: unknown): void {
    if (document === undefined) return;
    this.io
      .writeOut(`${forJson(JSON.stringify(document, null, this.jsonLines ? 0 : 2))}\n`)
      .catch((error: Error) => this.#fail(error));
  }

  override toErrorJson(error: Error): ErrorDocument {
    const details = error instanceof ClientError ? error.details : {};
    return { error: { message: this.#sentenceOf(error), exit_code: exitCodeFor(error), ...details } };
  }

  /** Reports the error on stderr, or as a document on stdout, and sets the exit code that the contract defines. */
  protected override async catch(error: Error): Promise<void> {
    if (error instanceof Errors.ExitError) throw error;
    if (!this.jsonEnabled()) {
      await this.#fail(error);
      return;
    }
    this.io.exitCode = exitCodeFor(error);
    this.logJson(this.toErrorJson(error));
  }

  #sentenceOf(error: Error): string {
    return sentenceOf(error, { ...this.ctor.baseFlags, ...this.ctor.flags });
  }

  /** Prints the command's output; with `--json` the returned value is printed instead. */
  protected async print(lines: readonly string[]): Promise<void> {
    if (this.jsonEnabled() || lines.length === 0) return;
    await this.io.writeOut(`${lines.join('\n')}\n`);
  }

  /** Prints the error, and below it hints for a remedy. */
  protected tellError(sentence: string, hints: readonly string[]): void {
    this.io.tellError(sentence, hints);
  }

  async #fail(error: Error): Promise<void> {
    const exitCode = exitCodeFor(error);
    this.io.exitCode = exitCode;
    const isOfTheParser = error instanceof Errors.CLIError || error instanceof FlagValueError;
    this.tellError(this.#sentenceOf(error), [
      ...(exitCode === exitCodes.usage && isOfTheParser
        ? [`See '${this.config.bin} ${this.id?.replaceAll(':', ' ')} --help'.`]
        : []),
      ...(error instanceof HttpError && error.retryAfter
        ? [`Try again in ${counted(error.retryAfter, 'second')}.`]
        : []),
      ...(error instanceof JobFailed ? hintsOfFailed(error) : []),
    ]);
    if (this.io.env.DEBUG && error.stack) this.io.writeErr(`${error.stack}\n`);
  }
}
