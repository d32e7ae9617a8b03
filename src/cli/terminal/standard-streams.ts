import { closeSync, fstatSync, writeFileSync } from 'node:fs';
import { isatty } from 'node:tty';
import { OutputError } from '../../client/errors.js';
import { exitCodes } from '../../contract/index.js';
import { errorCode, faultWithoutPath } from '../../files/index.js';
import { Colours } from './colours.js';
import { forJson, forTerminal } from './terminal-text.js';

/**
 * Writing to stdout and stderr. All output of a command goes through here. A terminal gets no control sequences except colours;
 * a pipe or a file gets the text as it is. A reader that closes its pipe is not an error (interface.md, Clients).
 */

/** Whether nothing more is written to stdout: its reader has left, or a write has failed. */
let outClosed = false;

const isClosed = (error: unknown): boolean => ['EPIPE', 'ERR_STREAM_DESTROYED'].includes(errorCode(error));

/** The error for a stdout that cannot be written to, usually a full disk behind a redirection. */
const outFailure = (cause: unknown): OutputError => new OutputError(faultWithoutPath(cause), { cause });

/** Whether a stream is a file or a device, to which Node writes at once. */
function isFileStream({ fd, isTTY }: NodeJS.WriteStream & { readonly fd: number }): boolean {
  const stats = fstatSync(fd);
  return stats.isFile() || (stats.isCharacterDevice() && !isTTY);
}

/**
 * Writes all of it, or reports an error. To a file it is written here, because Node's streams drop the rest if a full disk
 * accepted only a part.
 */
function writeAll(
  stream: NodeJS.WriteStream & { readonly fd: number },
  content: string | Uint8Array,
  done: (error?: Error | null) => void,
): void {
  if (!isFileStream(stream)) {
    stream.write(content, done);
    return;
  }
  try {
    writeFileSync(stream.fd, content);
    done();
  } catch (error) {
    done(error as Error);
  }
}

/** Whether the writer of stdout reports its errors: commands do, oclif's help and version do not. */
let isOutReported = false;

/**
 * Keeps a write error of stdout or stderr from ending the process with a stack trace.
 * @param isReported whether the writer of stdout reports its errors from now on
 */
export function tolerateClosedPipes(isReported = false): void {
  isOutReported = isReported;
  for (const [stream, onError] of [
    [process.stdout, onOutError],
    [process.stderr, onErrError],
  ] as const) {
    if (stream.listeners('error').includes(onError)) continue;
    // oclif's listener throws every error but a closed pipe, which would end the process before the error is shown.
    stream.removeAllListeners('error').on('error', onError);
  }
}

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

/** A closed pipe is not an error. For any other error, the exit code and a sentence say that the output is incomplete. */
function onOutError(error: Error): void {
  if (isClosed(error)) return;
  process.exitCode ||= exitCodes.failed;
  if (isOutReported || outClosed) return;
  outClosed = true;
  tellError(outFailure(error).message, []);
}

/** An error of stderr cannot be reported anywhere. */
function onErrError(): void {}

/** The text, cleaned of control sequences if the stream is a terminal. */
const textFor = (stream: NodeJS.WriteStream, text: string): string =>
  stream.isTTY ? forTerminal(text) : text;

/**
 * Writes to stdout and waits until it takes more.
 * @returns false if the reader has left
 * @throws OutputError if stdout cannot be written
 */
export const writeOut = (text: string): Promise<boolean> => writeOutAsIs(textFor(process.stdout, text));

/**
 * Writes to stdout what this program has made itself, such as a picture, without cleaning it.
 * @returns false if the reader has left
 * @throws OutputError if stdout cannot be written
 */
export function writeOutAsIs(content: string | Uint8Array): Promise<boolean> {
  if (outClosed) return Promise.resolve(false);
  return new Promise((resolve, reject) => {
    writeAll(process.stdout, content, (error) => {
      outClosed = Boolean(error);
      if (error && !isClosed(error)) reject(outFailure(error));
      else resolve(!outClosed);
    });
  });
}

/** Writes to stderr. */
export function writeErr(text: string): void {
  writeAll(process.stderr, textFor(process.stderr, text), () => {});
}

/** Whether a stream is a terminal that a person watches, and bars can be drawn. */
export function isInteractive(
  stream: NodeJS.WriteStream = process.stderr,
  env: NodeJS.ProcessEnv = process.env,
): boolean {
  const { isTTY, columns } = stream;
  // A line cannot be redrawn on a terminal without a width (from `docker run -t`): counting its rows would never end.
  return Boolean(isTTY) && columns > 0 && !env.CI && env.TERM !== 'dumb';
}

/** What `--json` prints for a command that failed. */
export interface ErrorDocument {
  readonly error: { readonly message: string; readonly exit_code: number };
}

/** Writes what went wrong to stderr, and below it what to do about it. */
export function tellError(sentence: string, hints: readonly string[]): void {
  const { error: red, hint: dim } = new Colours(process.stderr);
  writeErr(`${red('Error:')} ${sentence}\n`);
  for (const hint of hints) writeErr(`${dim(hint)}\n`);
}

/** Prints the document of `--json` for a process that ends outside of a command. */
export async function documentError(message: string, exitCode: number): Promise<void> {
  const document: ErrorDocument = { error: { message, exit_code: exitCode } };
  await writeOut(`${forJson(JSON.stringify(document, null, 2))}\n`);
}
