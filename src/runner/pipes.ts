import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync, rmSync } from 'node:fs';
import { Socket } from 'node:net';
import path from 'node:path';
import { oneLine } from '../contract/text.js';
import { isSystemError } from '../files/errors.js';
import { answersFifo, jobsFifo, outputFifo } from './protocol.js';

/** A pipe whose reading end is in this process. */
export interface InwardPipe {
  readonly reader: Socket;
  /** The descriptor behind `reader`. */
  readonly readFd: number;
  /** The writing end, for the program. */
  readonly writeFd: number;
  /** Closes this process's copy of the writing end, so that the reader ends when the last writer closes its own. */
  readonly release: () => void;
}

/**
 * Creates FIFOs in one directory that only this user may open.
 * @throws the system's error if `mkfifo` could not be started; otherwise an Error without a path, since clients see it
 */
export function makeFifo(fifo: string, ...others: readonly string[]): void {
  try {
    execFileSync('mkfifo', ['-m', '600', ...[fifo, ...others].map((each) => path.basename(each))], {
      cwd: path.dirname(fifo),
      stdio: ['ignore', 'ignore', 'pipe'],
    });
  } catch (cause) {
    if (isSystemError(cause)) throw cause;
    const reason = String(Object(cause).stderr).trim().split(': ').at(-1);
    throw new Error(`the pipe for the output could not be made: ${oneLine(reason ?? '')}`, { cause });
  }
}

/**
 * Creates FIFOs in one directory, replacing any files with their names. Node has no call to create a pipe, and the pipes that it
 * gives a child are sockets, which an app cannot open through `/dev/fd`.
 */
function makeAnew(...fifos: readonly [string, ...string[]]): void {
  for (const fifo of fifos) rmSync(fifo, { force: true });
  makeFifo(...fifos);
}

/** Opens both ends of a FIFO and removes its name. */
function openEnds(fifo: string): { readonly readFd: number; readonly writeFd: number } {
  try {
    // Non-blocking, because the open would otherwise wait for a writer.
    const readFd = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK);
    return { readFd, writeFd: openSync(fifo, constants.O_WRONLY) };
  } finally {
    rmSync(fifo, { force: true });
  }
}

/** Opens a pipe from a program to this process. */
function openInward(fifo: string): InwardPipe {
  const { readFd, writeFd } = openEnds(fifo);
  const reader = new Socket({ fd: readFd, readable: true, writable: false });
  return { reader, readFd, writeFd, release: () => closeSync(writeFd) };
}

/**
 * Opens one pipe for both stdout and stderr. Node would give a child two and lose the order between them, so that an error could
 * come before the line that led to it.
 */
export function openOutputPipe(directory: string): InwardPipe {
  const fifo = outputFifo(directory);
  makeAnew(fifo);
  return openInward(fifo);
}

/** Opens a pipe from this process to a program. */
function openOutward(fifo: string): { readonly writer: Socket; readonly readFd: number } {
  const ends = openEnds(fifo);
  // Reopened in blocking mode now that there is a writer, because a program expects reads of its stdin to block.
  const readFd = openSync(`/dev/fd/${ends.readFd}`, constants.O_RDONLY);
  closeSync(ends.readFd);
  return { writer: new Socket({ fd: ends.writeFd, readable: false, writable: true }), readFd };
}

/** Opens the pipes of a worker. Their FIFOs are created together, because each start of `mkfifo` takes some milliseconds. */
export function openWorkerPipes(home: string) {
  const [output, answers, jobs] = [outputFifo(home), answersFifo(home), jobsFifo(home)] as const;
  makeAnew(output, answers, jobs);
  return { output: openInward(output), answers: openInward(answers), jobs: openOutward(jobs) };
}
