import { fstatSync, writeFileSync } from 'node:fs';
import { ClientError } from '../client/errors.js';
import { exitCodes } from '../contract/errors.js';
import { errorCode, faultWithoutPath } from '../files/error-code.js';
import { forTerminal } from './terminal-text.js';

/**
 * Writing to stdout and stderr: all that a command prints goes through here. A terminal gets no control sequence but
 * colours; a pipe or a file gets the text as it is. A reader that leaves is no error (interface.md, Clients).
 */

let outClosed = false;

const isClosed = (error: unknown): boolean => ['EPIPE', 'ERR_STREAM_DESTROYED'].includes(errorCode(error));

/** What keeps stdout from being written, in words: a full disk behind a redirection, mostly. */
const outFailure = (cause: unknown): ClientError =>
  new ClientError(
    `Cannot write to stdout: ${faultWithoutPath(cause)}; what was printed is not complete`,
    exitCodes.failed,
    {},
    { cause },
  );

/**
 * Of a stream that is a file or a device, Node's own way of writing throws where it should hand the error on, and loses
 * what a disk did not take.
 */
function mendFileStream(stream: NodeJS.WriteStream & { readonly fd: number }): void {
  const stats = fstatSync(stream.fd);
  if (!(stats.isFile() || (stats.isCharacterDevice() && !stream.isTTY))) return;
  stream._write = (chunk: Buffer | string, encoding, done) => {
    try {
      // All of it, or it throws: a disk that is nearly full takes a part of what it is given.
      writeFileSync(stream.fd, typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk);
    } catch (error) {
      done(error as Error);
      return;
    }
    done();
  };
}

/** Keeps a stdout or stderr that cannot be written from ending the process with a stack. */
export function tolerateClosedPipes(): void {
  for (const [stream, onError] of [
    [process.stdout, onOutError],
    [process.stderr, onErrError],
  ] as const) {
    if (stream.listeners('error').includes(onError)) continue;
    // oclif listens as well, and throws what is no closed pipe: that ends the process before the error is told.
    stream.removeAllListeners('error').on('error', onError);
    mendFileStream(stream);
  }
}

/** Whoever waits for the write hears of the error and tells it; where nobody does (help texts), the exit code does. */
function onOutError(error: Error): void {
  if (!isClosed(error)) process.exitCode ||= exitCodes.failed;
}

/** There is nowhere to tell it. */
function onErrError(): void {}

/** The text as the stream may have it. */
const textFor = (stream: NodeJS.WriteStream, text: string): string =>
  stream.isTTY ? forTerminal(text) : text;

/**
 * Writes to stdout and waits until it takes more.
 * @returns false where the reader has left
 * @throws ClientError where stdout cannot be written
 */
export function writeOut(text: string): Promise<boolean> {
  if (outClosed) return Promise.resolve(false);
  return new Promise((resolve, reject) => {
    process.stdout.write(textFor(process.stdout, text), (error) => {
      outClosed = Boolean(error);
      if (error && !isClosed(error)) reject(outFailure(error));
      else resolve(!outClosed);
    });
  });
}

/** Writes to stderr. */
export function writeErr(text: string): void {
  process.stderr.write(textFor(process.stderr, text));
}

/** Whether a person sees what goes to stderr as it is written: bars are for nobody else. */
export function isInteractive(env: NodeJS.ProcessEnv = process.env): boolean {
  const { isTTY, columns } = process.stderr;
  // A terminal without a width (`docker run -t` gives one) cannot redraw a line: what counts its rows never ends.
  return Boolean(isTTY) && columns > 0 && !env.CI && env.TERM !== 'dumb';
}
