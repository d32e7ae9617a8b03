import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync, rmSync } from 'node:fs';
import { Socket } from 'node:net';
import { oneLine } from '../contract/quote.js';
import { isSystemError } from '../files/error-code.js';
import { outputFifo } from './protocol.js';

export interface OutputPipe {
  /** What the command prints, both streams in the order in which it printed them. */
  readonly reader: Socket;
  /** For the command's stdout and stderr. */
  readonly writeFd: number;
  /** Closes our copy of the writing end: the reader then ends when the last process of the job has closed its own. */
  readonly release: () => void;
}

/**
 * Makes a FIFO that its owner alone may open.
 * @throws the system's error where `mkfifo` could not be started; else an Error that names no path, for a client is told
 */
export function makeFifo(fifo: string): void {
  try {
    execFileSync('mkfifo', ['-m', '600', fifo], { stdio: ['ignore', 'ignore', 'pipe'] });
  } catch (cause) {
    if (isSystemError(cause)) throw cause;
    const reason = String(Object(cause).stderr).trim().split(': ').at(-1);
    throw new Error(`the pipe for the output could not be made: ${oneLine(reason ?? '')}`, { cause });
  }
}

/**
 * One pipe for stdout and stderr together. Node gives a child two, and with two the order between them is lost:
 * an error could come before the line that led to it. Node has no call for a bare pipe, a FIFO is one.
 */
export function openOutputPipe(directory: string): OutputPipe {
  const fifo = outputFifo(directory);
  rmSync(fifo, { force: true });
  makeFifo(fifo);
  try {
    const readFd = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK);
    const writeFd = openSync(fifo, constants.O_WRONLY);
    const reader = new Socket({ fd: readFd, readable: true, writable: false });
    return { reader, writeFd, release: () => closeSync(writeFd) };
  } finally {
    rmSync(fifo, { force: true });
  }
}
