import { constants, fstatSync, openSync, writeSync } from 'node:fs';
import { errorCode } from '../../files/error-code.js';

/** Bytes of one write: a pipe takes as many whole, or none of them. */
const pieceLength = 4096;

const { O_APPEND, O_NOCTTY, O_NONBLOCK, O_WRONLY } = constants;

/**
 * Writes text to a descriptor at once, and neither waits nor fails: a disk may be full, a terminal closed, a pipe full
 * because nobody reads it. Node's own streams are of no use for that: one for a file ends with its first error, and one
 * for a pipe keeps in memory what cannot be written.
 */
export class DirectOutput {
  /** What is written to; null until the first write, and while a pipe has no reader. */
  #target: number | null = null;
  /** Whether the last write stopped within a line. */
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
   * Opens a pipe or a terminal anew, so that writing to it does not wait: the flag for that belongs to the open file,
   * and the one that this process was given is shared with others. Writing to a file does not wait for a reader, and
   * a socket, which cannot be opened again, has been given the flag by Node (`replaceStream`).
   */
  #open(): number {
    const stat = fstatSync(this.descriptor);
    if (!stat.isFIFO() && !stat.isCharacterDevice()) return this.descriptor;
    try {
      return openSync(`/proc/self/fd/${this.descriptor}`, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY);
    } catch (cause) {
      // A pipe that nobody has open for reading: somebody may later.
      if (errorCode(cause) === 'ENXIO') throw cause;
      return this.descriptor;
    }
  }
}

/**
 * Makes a standard stream of Node's harmless, for a process that writes past it: whatever still writes to it cannot end
 * the process with an error that nobody listens to. That Node has made the stream keeps a pipe or a socket from
 * blocking.
 */
export function replaceStream(stream: NodeJS.WriteStream): void {
  stream.removeAllListeners('error');
  stream.on('error', () => {});
}
