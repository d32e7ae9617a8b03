import { closeSync, fstatSync, writeFileSync } from 'node:fs';
import { type Readable, Writable } from 'node:stream';
import { isatty } from 'node:tty';
import type { Interfaces } from '@oclif/core';
import { Config } from '@oclif/core/config';
import { Chalk, type ChalkInstance } from 'chalk';
import { OutputError } from '../../client/errors.js';
import { type ExitCode, exitCodes, type JobState } from '../../contract/index.js';
import { errorCode, faultWithoutPath } from '../../files/index.js';
import { forJson, forTerminal } from './terminal-text.js';

/** An output stream. A terminal also has a size in characters. */
export interface OutputStream extends Writable {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
}

/** A stream for input. */
export interface InputStream extends Readable {
  readonly isTTY?: boolean;
  setRawMode?(isRaw: boolean): unknown;
}

type Paint = (text: string) => string;

/** Whether output to a stream is coloured: on a terminal it is, unless the environment says otherwise. */
export function hasColour(stream: { readonly isTTY?: boolean }, env: NodeJS.ProcessEnv): boolean {
  const { FORCE_COLOR, NO_COLOR, CI, TERM } = env;
  if (FORCE_COLOR) return !['0', 'false'].includes(FORCE_COLOR);
  return Boolean(stream.isTTY) && !NO_COLOR && !CI && TERM !== 'dumb';
}

/** The colours of messages and states on one stream. On a stream without colours every function returns the text unchanged. */
export class Colours {
  readonly error: Paint;
  readonly warning: Paint;
  readonly hint: Paint;
  readonly #states: Readonly<Record<JobState, ChalkInstance>>;

  constructor(stream: { readonly isTTY?: boolean }, env: NodeJS.ProcessEnv) {
    const { red, yellow, green, cyan, dim } = new Chalk({ level: hasColour(stream, env) ? 1 : 0 });
    this.error = red;
    this.warning = yellow;
    this.hint = dim;
    this.#states = { queued: dim, waiting: dim, running: cyan, done: green, error: red, killed: yellow };
  }

  /** A job's state. A server may send unknown states, which have no colour. */
  state(name: string): Paint {
    return Object.hasOwn(this.#states, name) ? this.#states[name as JobState] : (text) => text;
  }
}

/** The part of a process that a command uses. */
interface Surroundings {
  readonly stdin: InputStream;
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly env: NodeJS.ProcessEnv;
}

/** What `--json` prints for a command that failed. */
export interface ErrorDocument {
  readonly error: { readonly message: string; readonly exit_code: number };
}

const isClosed = (error: unknown): boolean => ['EPIPE', 'ERR_STREAM_DESTROYED'].includes(errorCode(error));

/**
 * The descriptor of a stream to a file or a device; null for any other stream. It is needed because Node drops the rest of a
 * write to a file if a full disk accepted only part of it.
 */
function fileOf(stream: OutputStream): number | null {
  if (!('fd' in stream) || typeof stream.fd !== 'number' || stream.isTTY) return null;
  const stats = fstatSync(stream.fd);
  return stats.isFile() || stats.isCharacterDevice() ? stream.fd : null;
}

/** The text, cleaned of control sequences if the stream is a terminal. */
const textFor = (stream: OutputStream, text: string): string => (stream.isTTY ? forTerminal(text) : text);

/**
 * The streams, environment and exit code of one command, taken from the process or from a test. All output of a command goes
 * through here. A terminal gets no control sequences except colours; a pipe or a file gets the text unchanged. A reader that
 * closes its pipe is not an error.
 */
export class CommandIo {
  readonly stdin: InputStream;
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly env: NodeJS.ProcessEnv;
  /** The exit code that the command has earned so far. */
  exitCode: number = exitCodes.done;
  /** Whether nothing more is written to stdout: its reader has left, or a write has failed. */
  #outClosed = false;

  constructor({ stdin, stdout, stderr, env }: Surroundings) {
    this.stdin = stdin;
    this.stdout = stdout;
    this.stderr = stderr;
    this.env = env;
    // Each write reports its own error. Without listeners an error would end the process with a stack trace, and
    // oclif's listener ends it for every error but a closed pipe.
    for (const stream of [stdout, stderr]) stream.removeAllListeners('error').on('error', () => {});
  }

  /** Sets the exit code to the highest one so far. */
  exitWithWorst(exitCode: number): void {
    this.exitCode = Math.max(this.exitCode, exitCode);
  }

  /**
   * Writes to stdout, and waits until it accepts more.
   * @returns false if the reader is gone
   * @throws OutputError if stdout cannot be written
   */
  writeOut(text: string): Promise<boolean> {
    return this.writeOutAsIs(textFor(this.stdout, text));
  }

  /**
   * Writes content produced by this program, such as a picture, to stdout without cleaning it.
   * @returns false if the reader is gone
   * @throws OutputError if stdout cannot be written
   */
  async writeOutAsIs(content: string | Uint8Array): Promise<boolean> {
    if (this.#outClosed) return false;
    try {
      const file = fileOf(this.stdout);
      if (file !== null) writeFileSync(file, content);
      else await written(this.stdout, content);
    } catch (error) {
      this.#outClosed = true;
      if (!isClosed(error)) throw new OutputError(faultWithoutPath(error), { cause: error });
    }
    return !this.#outClosed;
  }

  /** A stream that writes to stdout, but does not close it. It fails once the reader is gone. */
  outStream(): Writable {
    // Each write reports its own error.
    const ignored = () => {};
    return new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        this.writeOutAsIs(chunk).then(
          (isOpen) => done(isOpen ? null : Object.assign(new Error('stdout is closed'), { code: 'EPIPE' })),
          (error: OutputError) => done(error.cause as Error),
        );
      },
    }).on('error', ignored);
  }

  /** Writes to stderr. Its errors cannot be reported anywhere. */
  writeErr(text: string): void {
    this.stderr.write(textFor(this.stderr, text));
  }

  /** The colours of stdout or stderr. */
  colours(stream: OutputStream = this.stderr): Colours {
    return new Colours(stream, this.env);
  }

  /** Whether a stream is a terminal on which bars can be drawn. */
  isInteractive({ isTTY, columns = 0 }: OutputStream = this.stderr): boolean {
    // A line cannot be redrawn on a terminal without a width (from `docker run -t`): counting its rows would never end.
    return Boolean(isTTY) && columns > 0 && !this.env.CI && this.env.TERM !== 'dumb';
  }

  /** Prints an error to stderr, and below it hints for a remedy. */
  tellError(sentence: string, hints: readonly string[]): void {
    const { error: red, hint: dim } = this.colours();
    this.writeErr(`${red('Error:')} ${sentence}\n`);
    for (const hint of hints) this.writeErr(`${dim(hint)}\n`);
  }

  /** Prints the document of `--json` for a process that ends outside of a command. */
  async documentError(message: string, exitCode: ExitCode): Promise<void> {
    const document: ErrorDocument = { error: { message, exit_code: exitCode } };
    await this.writeOut(`${forJson(JSON.stringify(document, null, 2))}\n`);
  }
}

/**
 * Loads the configuration with which oclif runs commands that have these streams, environment and exit code. oclif makes a new
 * configuration for each command, with the options of this one.
 * @param root a directory of the package
 */
export async function loadConfig(root: string, io: CommandIo): Promise<Config> {
  const options: Interfaces.Options & { readonly io: CommandIo } = { root, io };
  const config = new Config(options);
  await config.load();
  return config;
}

/** The streams, environment and exit code of the commands of a configuration: by default those of the process. */
export function ioOf({ options }: Config): CommandIo {
  return 'io' in options && options.io instanceof CommandIo ? options.io : new CommandIo(process);
}

/** Writes to a pipe, a terminal or a socket; resolves once the content was accepted. */
const written = (stream: Writable, content: string | Uint8Array): Promise<void> =>
  new Promise((resolve, reject) => {
    stream.write(content, (error) => (error ? reject(error) : resolve()));
  });

/**
 * Closes the standard streams whose terminal was closed. Called at the end of the process: Node resets terminals there,
 * and aborts if it cannot.
 */
export function leaveClosedTerminals(): void {
  for (const fd of [0, 1, 2]) {
    try {
      // Closing a device that is not a terminal, such as /dev/null, loses nothing.
      if (fstatSync(fd).isCharacterDevice() && !isatty(fd)) closeSync(fd);
    } catch {
      // The descriptor is already closed.
    }
  }
}
