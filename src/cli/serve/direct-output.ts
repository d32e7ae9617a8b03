import { constants, fstatSync, openSync, writeSync } from 'node:fs';
import { errorCode } from '../../files/index.js';

/** Bytes of one write: a pipe takes this many at once or none of them. */
const pieceLength = 4096;

const { O_APPEND, O_NOCTTY, O_NONBLOCK, O_WRONLY } = constants;

/**
 * Writes text to a descriptor at once, without waiting and without throwing: the disk may be full, the terminal closed, or
 * the pipe full because nobody reads it. Node's streams cannot do that: a file stream ends with its first error, and a pipe
 * stream keeps in memory what cannot be written.
 */
export class DirectOutput {
  /** The descriptor that is written to; null until the first write, and while a pipe has no reader. */
  #target: number | null = null;
  /** Whether the last write ended in the middle of a line. */
  #isMidLine = false;

  constructor(private readonly descriptor: number) {}

  /** @returns whether all of it could be written */
  write(text: string): boolean {
    const bytes = Buffer.from(this.#isMidLine ? `\n${text}` : text);
    let written = 0;
    try {
      this.#target ??= this.#open();
      while (written < bytes.length) {
        const length = Math.min(pieceLength, bytes.length - written);
        written += writeSync(this.#target, bytes, written, length);
      }
      this.#isMidLine = false;
      return true;
    } catch {
      if (written > 0) this.#isMidLine = bytes[written - 1] !== 0x0a;
      return false;
    }
  }

  /**
   * Opens a pipe or a terminal again with O_NONBLOCK. The flag belongs to the open file description, and the one that this
   * process was started with is shared with others. A file needs no such flag; a socket cannot be opened again, but Node
   * has set the flag on it (`replaceStream`).
   */
  #open(): number {
    const stat = fstatSync(this.descriptor);
    if (!stat.isFIFO() && !stat.isCharacterDevice()) return this.descriptor;
    try {
      return openSync(`/proc/self/fd/${this.descriptor}`, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY);
    } catch (cause) {
      // A pipe without a reader; it may get one later.
      if (errorCode(cause) === 'ENXIO') throw cause;
      return this.descriptor;
    }
  }
}

/**
 * Makes one of Node's standard streams harmless in a process that writes to the descriptor directly: other code that still
 * writes to the stream can no longer end the process with an unhandled error. Creating the stream makes Node set a pipe or
 * socket to non-blocking.
 */
export function replaceStream(stream: NodeJS.WriteStream): void {
  stream.removeAllListeners('error');
  stream.on('error', () => {});
}
