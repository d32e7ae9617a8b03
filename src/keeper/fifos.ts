import { closeSync, constants, openSync, rmSync } from 'node:fs';
import { Socket } from 'node:net';
import { makeFifo } from '../runner/output-pipe.js';

/** Opens the two ends of a FIFO that has no name any more. An app may open its end by `/dev/fd`, which a socket does not allow. */
function openEnds(fifo: string): { readonly readFd: number; readonly writeFd: number } {
  rmSync(fifo, { force: true });
  makeFifo(fifo);
  try {
    // Otherwise it would wait for a writer.
    const readFd = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK);
    return { readFd, writeFd: openSync(fifo, constants.O_WRONLY) };
  } finally {
    rmSync(fifo, { force: true });
  }
}

/** A pipe from a worker, whose end is `writeFd`. */
export function openInward(fifo: string): { readonly reader: Socket; readonly writeFd: number } {
  const { readFd, writeFd } = openEnds(fifo);
  return { reader: new Socket({ fd: readFd, readable: true, writable: false }), writeFd };
}

/** A pipe to a worker, whose end is `readFd`. */
export function openOutward(fifo: string): { readonly writer: Socket; readonly readFd: number } {
  const ends = openEnds(fifo);
  // Opened again, now that there is a writer: a program expects that a read of its stdin waits.
  const readFd = openSync(`/dev/fd/${ends.readFd}`, constants.O_RDONLY);
  closeSync(ends.readFd);
  return { writer: new Socket({ fd: ends.writeFd, readable: false, writable: true }), readFd };
}
