import type { Interfaces } from '@oclif/core';
import { type Connection, openConnection } from '../../client/connection/index.js';
import { Interrupted, TransportError } from '../../client/errors.js';
import type { Reporter } from '../../client/reporter.js';
import {
  type CommandIo,
  type ErrorDocument,
  JsonLogReporter,
  type OpenReporter,
  openReporter,
} from '../terminal/index.js';
import { BaseCommand } from './base-command.js';
import { withValue } from './deidentify-flags.js';
import { connectionFlags } from './flags.js';
import { type Interruption, watchInterruption } from './interruption.js';
import {
  type ConnectionChoices,
  loadSettings,
  type Settings,
  type TypedFlags,
  transportTo,
} from './settings.js';

/** Maximum wait, in seconds, for a server that has not answered yet and may be starting. */
const maxStart = 20;

/** The advice if nothing answers at the default address. */
const noServerNamed =
  "no server was named: give --server or REMOTE_APP_SERVER, or run 'remote-app login --server URL' once";

/** The flags that select the server, which suggested commands repeat. The token is left out: it must not appear on a screen. */
const waysToServer = ['server', 'profile', 'token-file', 'ca'] as const;

export type ConnectionFlags = Interfaces.InferredFlags<typeof connectionFlags>;

/** Parsed flags or arguments, by name. */
type Values = Record<string, unknown>;

/** How a command about several jobs reports on each of them. */
export interface JobsOutput {
  readonly io: CommandIo;
  /** Prints a line about a job; does nothing with `--json`. */
  readonly print: (line: string) => Promise<void>;
  /** Converts an error to its `--json` document. */
  readonly explain: (error: Error) => ErrorDocument;
  /** Whether errors are reported in the final document instead of on stderr. */
  readonly json: boolean;
}

/**
 * A command that talks to a server. It connects according to flags, environment and profile, and closes everything when it ends.
 */
export abstract class ClientCommand extends BaseCommand {
  static override baseFlags = connectionFlags;

  readonly #closers: (() => void | Promise<void>)[] = [];
  #interruption: Interruption | null = null;
  #reporter: OpenReporter | null = null;
  /** Names of the flags that were typed. */
  protected typed: TypedFlags = new Set();
  #isDefaultServer = false;

  override async init(): Promise<void> {
    // Setting the title hides the arguments, which may contain a token, from process lists.
    if (this.argv.some((argument) => argument.startsWith('--token'))) process.title = this.config.bin;
    await super.init();
  }

  /** Aborted by the first SIGINT, SIGTERM, SIGHUP or SIGQUIT. */
  protected get interruption(): AbortSignal {
    if (!this.#interruption) {
      this.#interruption = watchInterruption(this.io, this.jsonEnabled());
      this.#closers.push(() => this.#interruption?.stop());
    }
    return this.#interruption.signal;
  }

  /** Parses, and records which flags were typed: oclif does not tell typed flags from environment variables. */
  protected override async parse<F extends Values, B extends Values, A extends Values>(
    options?: Interfaces.Input<F, B, A>,
    argv?: string[],
  ): Promise<Interfaces.ParserOutput<F, B, A>> {
    const words = argv ?? this.argv;
    const parsed = await super.parse(
      options,
      'deidentify' in (this.ctor.flags ?? {}) ? withValue(words) : words,
    );
    this.typed = new Set(parsed.raw.flatMap((token) => (token.type === 'flag' ? [token.flag] : [])));
    return parsed;
  }

  /** The settings from flags, environment and profile. */
  protected async settings(flags: ConnectionFlags & Pick<ConnectionChoices, 'app'>): Promise<Settings> {
    return loadSettings(flags, this.config.configDir, this.typed);
  }

  /**
   * Connects according to these settings.
   * @param waitsForStart whether to wait briefly for an unreachable server, since it may be restarting
   */
  protected async connectTo(
    settings: Settings,
    flags: ConnectionFlags,
    waitsForStart = false,
  ): Promise<Connection> {
    const signal = this.interruption;
    const tell = (sentence: string) => this.io.writeErr(`${this.io.colours().hint(sentence)}\n`);
    const start = { seconds: Math.min(flags.patience, maxStart), tell };
    this.#isDefaultServer = settings.isDefault;
    const serverFlags = waysToServer.flatMap((name) => {
      const value = this.typed.has(name) ? flags[name] : undefined;
      return value ? [[name, value] as const] : [];
    });
    const connection = await openConnection({
      ...(await transportTo(settings, this.io, { timeout: flags['connect-timeout'], signal })),
      server: settings.server,
      token: settings.token,
      connectTimeout: flags['connect-timeout'],
      readTimeout: flags['read-timeout'],
      patience: flags.patience,
      start: waitsForStart ? start : undefined,
      serverFlags,
      signal,
    });
    this.#closers.push(() => connection.close());
    return connection;
  }

  protected async connect(flags: ConnectionFlags, waitsForStart = false): Promise<Connection> {
    return this.connectTo(await this.settings(flags), flags, waitsForStart);
  }

  /**
   * Opens the reporter: bars and spinners on a terminal, plain lines elsewhere.
   * @param stdoutIsTaken whether stdout has another use, so that the log goes to stderr
   * @param all whether every redraw of a job's log is shown
   */
  protected async reporter({ stdoutIsTaken = this.jsonEnabled(), all = false } = {}): Promise<Reporter> {
    this.#reporter = await openReporter(this.io, { stdoutIsTaken, all });
    return this.#reporter;
  }

  /** Opens the reporter of a command whose output is a log: with `--json`, each line is a document. */
  protected async logReporter(all: boolean): Promise<Reporter> {
    return this.jsonEnabled() ? new JsonLogReporter(this.io) : this.reporter({ all });
  }

  /** How a command about several jobs reports on each of them. */
  protected jobsOutput(): JobsOutput {
    return {
      print: (line) => this.print([line]),
      io: this.io,
      explain: (error) => this.toErrorJson(error),
      json: this.jsonEnabled(),
    };
  }

  /** Adds advice to the error if the default server cannot be reached. */
  #withAdvice(error: Error): Error {
    const isUnreached = error instanceof TransportError && error.fault === 'unreached';
    if (!(isUnreached && this.#isDefaultServer)) return error;
    return new TransportError(error.fault, `${error.message}; ${noServerNamed}`, { cause: error });
  }

  /** After an interruption, every error is reported as that interruption. */
  protected override async catch(error: Error): Promise<void> {
    // Closed first, so that the message does not overlap a bar or a spinner.
    this.#reporter?.close();
    const signal = this.#interruption?.signal;
    const isCause = signal?.aborted && signal.reason instanceof Error && !(error instanceof Interrupted);
    await super.catch(isCause ? signal.reason : this.#withAdvice(error));
  }

  protected override async finally(error: Error | undefined): Promise<void> {
    this.#reporter?.close();
    for (const close of this.#closers.splice(0).reverse()) await close();
    await super.finally(error);
  }
}
