import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync, rmSync } from 'node:fs';
import { Socket } from 'node:net';
import path from 'node:path';
import { oneLine } from '../contract/text.js';
import { isSystemError } from '../files/errors.js';
import { answersFifo, jobsFifo, outputFifo } from './protocol.js';

/** A pipe into this process. */
export interface InwardPipe {
  readonly reader: Socket;
  /** The reader's descriptor. */
  readonly readFd: number;
  /** For the program that writes. */
  readonly writeFd: number;
  /** Closes this process's copy of the writing end, so that the reader ends when the last writer closes its own. */
  readonly release: () => void;
}

/**
 * Makes a FIFO that only its owner may open, and others beside it.
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
 * Makes FIFOs of one directory, in the place of what has their names. Node has no call to make a pipe, and the pipes that it
 * gives a child are sockets, which an app cannot open through `/dev/fd`.
 */
function makeAnew(...fifos: readonly [string, ...string[]]): void {
  for (const fifo of fifos) rmSync(fifo, { force: true });
  makeFifo(...fifos);
}

/** Opens both ends of a FIFO and removes its name. */
function openEnds(fifo: string): { readonly readFd: number; readonly writeFd: number } {
  try {
    // Otherwise the open would wait for a writer.
    const readFd = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK);
    return { readFd, writeFd: openSync(fifo, constants.O_WRONLY) };
  } finally {
    rmSync(fifo, { force: true });
  }
}

/** A pipe from a program. */
function openInward(fifo: string): InwardPipe {
  const { readFd, writeFd } = openEnds(fifo);
  const reader = new Socket({ fd: readFd, readable: true, writable: false });
  return { reader, readFd, writeFd, release: () => closeSync(writeFd) };
}

/**
 * One pipe for stdout and stderr together. Node would give a child two, and lose the order between them: an error could
 * come before the line that led to it.
 */
export function openOutputPipe(directory: string): InwardPipe {
  const fifo = outputFifo(directory);
  makeAnew(fifo);
  return openInward(fifo);
}

/** A pipe to a program. */
function openOutward(fifo: string): { readonly writer: Socket; readonly readFd: number } {
  const ends = openEnds(fifo);
  // Opened again now that there is a writer: a program expects reads of its stdin to block.
  const readFd = openSync(`/dev/fd/${ends.readFd}`, constants.O_RDONLY);
  closeSync(ends.readFd);
  return { writer: new Socket({ fd: ends.writeFd, readable: false, writable: true }), readFd };
}

/** The pipes of a worker. They are made at once: each start of `mkfifo` takes some milliseconds. */
export function openWorkerPipes(home: string) {
  const [output, answers, jobs] = [outputFifo(home), answersFifo(home), jobsFifo(home)] as const;
  makeAnew(output, answers, jobs);
  return { output: openInward(output), answers: openInward(answers), jobs: openOutward(jobs) };
}
