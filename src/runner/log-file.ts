import { closeSync, fstatSync, ftruncateSync, openSync, writeSync } from 'node:fs';
import { servicePrefix } from '../contract/log-stream.js';

/** Characters of output past the limit that are kept: the end of a log is where the error stands. */
const tailLength = 64 * 1024;

/**
 * The log of a job, bounded: whole lines up to `maxBytes`, then nothing until the end, then how much was left
 * out, then the last lines. Writes are synchronous: a program that prints faster than the disk takes it waits.
 */
export class LogFile {
  readonly #fd: number;
  #size: number;
  #omitted = 0;
  #tail: string[] = [];
  #tailLength = 0;

  /** @throws the system's error where the file cannot be opened */
  constructor(
    path: string,
    private readonly maxBytes: number,
  ) {
    this.#fd = openSync(path, 'a', 0o600);
    this.#size = fstatSync(this.#fd).size;
  }

  /** @throws the system's error (a full disk), after which the log holds whole lines alone */
  append(lines: readonly string[]): void {
    if (lines.length === 0) return;
    if (this.#omitted === 0) {
      const bytes = Buffer.from(`${lines.join('\n')}\n`);
      if (this.#size + bytes.length <= this.maxBytes) {
        this.#write(bytes);
        return;
      }
    }
    this.#keepTail(lines);
  }

  close(): void {
    try {
      if (this.#omitted > 0) {
        const omitted = this.#omitted - this.#tail.length;
        const note = `${servicePrefix}Log limit of ${this.maxBytes} bytes reached: ${omitted} lines left out here`;
        this.#write(Buffer.from(`${[note, ...this.#tail].join('\n')}\n`));
      }
    } finally {
      closeSync(this.#fd);
    }
  }

  #keepTail(lines: readonly string[]): void {
    for (const line of lines) {
      this.#omitted += 1;
      this.#tail.push(line);
      this.#tailLength += line.length;
    }
    let drop = 0;
    while (this.#tailLength > tailLength && drop < this.#tail.length - 1) {
      this.#tailLength -= this.#tail[drop]?.length ?? 0;
      drop += 1;
    }
    if (drop > 0) this.#tail = this.#tail.slice(drop);
  }

  #write(bytes: Buffer): void {
    let written = 0;
    try {
      while (written < bytes.length) written += writeSync(this.#fd, bytes, written);
      this.#size += bytes.length;
    } catch (cause) {
      ftruncateSync(this.#fd, this.#size);
      throw cause;
    }
  }
}
