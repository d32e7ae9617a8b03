import { closeSync, fstatSync, writeFileSync } from 'node:fs';
import { type Readable, Writable } from 'node:stream';
import { isatty } from 'node:tty';
import { OutputError } from '../../client/errors.js';
import { type ExitCode, exitCodes } from '../../contract/index.js';
import { errorCode, faultWithoutPath } from '../../files/index.js';
import { Colours } from './colours.js';
import { forJson, forTerminal } from './terminal-text.js';

/** A stream for output. One that is a terminal has a size in characters. */
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

/** The error for a stdout that cannot be written to, usually a full disk behind a redirection. */
const outFailure = (cause: unknown): OutputError => new OutputError(faultWithoutPath(cause), { cause });

/**
 * The descriptor of a stream that is a file or a device; null for any other. Node drops the rest of a write to a file if a full
 * disk took only part of it.
 */
function fileOf(stream: OutputStream): number | null {
  if (!('fd' in stream) || typeof stream.fd !== 'number' || stream.isTTY) return null;
  const stats = fstatSync(stream.fd);
  return stats.isFile() || stats.isCharacterDevice() ? stream.fd : null;
}

/** The text, cleaned of control sequences if the stream is a terminal. */
const textFor = (stream: OutputStream, text: string): string => (stream.isTTY ? forTerminal(text) : text);

/**
 * The streams, environment and exit code of one command: those of the process, or those that a test made. All output of
 * a command goes through here. A terminal gets no control sequences except colours; a pipe or a file gets the text as it is. A
 * reader that closes its pipe is not an error.
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
    // Whoever writes is told of its error. Without listeners an error would end the process with a stack trace, and
    // oclif's listener ends it for every error but a closed pipe.
    for (const stream of [stdout, stderr]) stream.removeAllListeners('error').on('error', () => {});
  }

  /** Ends with the highest exit code so far. */
  exitWithWorst(exitCode: number): void {
    this.exitCode = Math.max(this.exitCode, exitCode);
  }

  /**
   * Writes to stdout and waits until it takes more.
   * @returns false if the reader has left
   * @throws OutputError if stdout cannot be written
   */
  writeOut(text: string): Promise<boolean> {
    return this.writeOutAsIs(textFor(this.stdout, text));
  }

  /**
   * Writes to stdout what this program has made itself, such as a picture, without cleaning it.
   * @returns false if the reader has left
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
      if (!isClosed(error)) throw outFailure(error);
    }
    return !this.#outClosed;
  }

  /** A stream to stdout whose end leaves stdout open. It fails once the reader has left. */
  outStream(): Writable {
    // Whoever writes is told of an error.
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

  /** Whether a stream is a terminal that a person watches, and bars can be drawn. */
  isInteractive({ isTTY, columns = 0 }: OutputStream = this.stderr): boolean {
    // A line cannot be redrawn on a terminal without a width (from `docker run -t`): counting its rows would never end.
    return Boolean(isTTY) && columns > 0 && !this.env.CI && this.env.TERM !== 'dumb';
  }

  /** Writes what went wrong to stderr, and below it what to do about it. */
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

/** Writes to a pipe, a terminal or a socket; resolves when it has taken the content. */
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
      // It is closed already.
    }
  }
}
