import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync, renameSync, rmSync } from 'node:fs';
import { Socket } from 'node:net';
import path from 'node:path';
import { oneLine } from '../contract/quote.js';
import { isSystemError } from '../files/error-code.js';
import { outputFifo } from './protocol.js';

export interface OutputPipe {
  /** The command's output: both streams, in the order in which it printed them. */
  readonly reader: Socket;
  /** The reader's descriptor. */
  readonly readFd: number;
  /** For the command's stdout and stderr. */
  readonly writeFd: number;
  /** Closes the runner's copy of the writing end, so that the reader ends when the last process of the job closes its own. */
  readonly release: () => void;
}

/**
 * Makes a FIFO that only its owner may open.
 * @throws the system's error if `mkfifo` could not be started; else an Error without a path, since clients see it
 */
export function makeFifo(fifo: string): void {
  try {
    execFileSync('mkfifo', ['-m', '600', path.basename(fifo)], {
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
 * Opens both ends of a FIFO.
 * @throws the system's error
 */
export function openEnds(fifo: string): OutputPipe {
  const readFd = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK);
  const writeFd = openSync(fifo, constants.O_WRONLY);
  const reader = new Socket({ fd: readFd, readable: true, writable: false });
  return { reader, readFd, writeFd, release: () => closeSync(writeFd) };
}

/** Gives a FIFO that was made before there was a job the job's name for it. */
function takeFifo(prepared: string, fifo: string): boolean {
  try {
    renameSync(prepared, fifo);
    return true;
  } catch {
    rmSync(prepared, { force: true });
    return false;
  }
}

/**
 * One pipe for stdout and stderr together. Node would give a child two, and lose the order between them: an error could
 * come before the line that led to it. Node has no call to make a pipe, so this is a FIFO.
 * @param prepared a FIFO that is there already, and has no other use
 */
export function openOutputPipe(directory: string, prepared?: string): OutputPipe {
  const fifo = outputFifo(directory);
  rmSync(fifo, { force: true });
  if (prepared === undefined || !takeFifo(prepared, fifo)) makeFifo(fifo);
  try {
    return openEnds(fifo);
  } finally {
    rmSync(fifo, { force: true });
  }
}
