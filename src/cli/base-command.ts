import { Command, Errors } from '@oclif/core';
import { ClientError, HttpError } from '../client/errors.js';
import { type ExitCode, exitCodes, ServiceError } from '../contract/errors.js';
import { oneLine } from '../contract/quote.js';
import { tolerateClosedPipes, writeErr, writeOut } from './standard-streams.js';
import { forJson } from './terminal-text.js';

/** What `--json` prints for a command that failed. */
export interface ErrorDocument {
  readonly error: { readonly message: string; readonly exitCode: number };
}

/** What a process ends with after this error. */
export function exitCodeFor(error: unknown): number {
  if (error instanceof ClientError) return error.exitCode;
  if (error instanceof ServiceError) return error.kind.exit;
  if (error instanceof Errors.CLIError) return error.oclif.exit ?? exitCodes.usage;
  return exitCodes.failed satisfies ExitCode;
}

/**
 * oclif wraps what a flag's own parser says and repeats a hint; the sentence inside is what a person needs. Every other
 * message is one line, whatever names are in it.
 */
function messageOf(error: Error): string {
  const message = error.message.replace(/\nSee more help with --help$/, '');
  const parsing = /^Parsing (--\S+) \n\t([\s\S]*)$/.exec(message);
  if (parsing) return oneLine(`Flag ${parsing[1]} ${parsing[2]}`);
  return error instanceof Errors.CLIError ? message : oneLine(message);
}

/** What all commands share: one way to fail, and `--json`, with which stdout is one JSON document and nothing else. */
export abstract class BaseCommand extends Command {
  static override enableJsonFlag = true;

  override async init(): Promise<void> {
    tolerateClosedPipes();
    await super.init();
  }

  override logJson(document: unknown): void {
    writeOut(`${forJson(JSON.stringify(document, null, 2))}\n`).catch((error: Error) => this.#fail(error));
  }

  override toErrorJson(error: Error): ErrorDocument {
    const details = error instanceof ClientError ? error.details : {};
    return { error: { message: messageOf(error), exitCode: exitCodeFor(error), ...details } };
  }

  /** One error handler: the message on stderr, or the document on stdout, and the exit code of the contract. */
  protected override async catch(error: Error): Promise<void> {
    if (error instanceof Errors.ExitError) throw error;
    if (!this.jsonEnabled()) {
      this.#fail(error);
      return;
    }
    process.exitCode = exitCodeFor(error);
    this.logJson(this.toErrorJson(error));
  }

  #fail(error: Error): void {
    process.exitCode = exitCodeFor(error);
    this.#printError(error, process.exitCode);
  }

  #printError(error: Error, exitCode: number): void {
    writeErr(`Error: ${messageOf(error)}\n`);
    if (exitCode === exitCodes.usage && error instanceof Errors.CLIError) {
      writeErr(`See '${this.config.bin} ${this.id?.replaceAll(':', ' ')} --help'.\n`);
    }
    if (error instanceof HttpError && error.retryAfter) {
      writeErr(`Try again in ${error.retryAfter} seconds.\n`);
    }
    if (process.env.DEBUG && error.stack) writeErr(`${error.stack}\n`);
  }
}
