import { closeSync, constants, fstatSync, fsyncSync } from 'node:fs';
import { counted } from '../contract/counted.js';
import { servicePrefix } from '../contract/log-stream.js';
import { appendWhole } from '../files/append-whole.js';
import { faultWithoutPath } from '../files/error-code.js';
import { openOwnFile } from '../files/own-file.js';

/** Characters that are kept from the end of the output past the limit: the error is usually there. */
const tailLength = 64 * 1024;

/** Characters that a line takes of it: an empty one has its line end. */
const sizeInTail = (line: string): number => line.length + 1;

/**
 * The log of a job, limited in size: lines up to `maxBytes`; then, at the end of the output, a note on how much was left
 * out and the last lines. Writes are synchronous, so a program that prints faster than the disk writes has to wait. Lines
 * that cannot be written because the disk is full are replaced by a note when there is room again; the command goes on.
 */
export class LogFile {
  readonly #fd: number;
  #size: number;
  #omitted = 0;
  #tail: string[] = [];
  #tailLength = 0;
  #lostLines = 0;
  #fault = '';

  /** @throws NotOurFile, or the system's error, if the file cannot be opened */
  constructor(
    path: string,
    private readonly maxBytes: number,
  ) {
    this.#fd = openOwnFile(path, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT);
    this.#size = fstatSync(this.#fd).size;
  }

  /** Number of lines that are missing in the log and not counted in a note there. */
  get lostLines(): number {
    return this.#lostLines;
  }

  append(lines: readonly string[]): void {
    if (lines.length === 0) return;
    if (this.#omitted === 0) {
      const bytes = Buffer.from(`${lines.join('\n')}\n`);
      if (this.#size + bytes.length <= this.maxBytes) {
        this.#write(bytes, lines.length);
        return;
      }
    }
    this.#keepTail(lines);
  }

  /** Writes what is left, and syncs the file so that it survives a power cut. */
  close(): void {
    try {
      if (this.#omitted > 0) {
        const omitted = this.#omitted - this.#tail.length;
        const note = `${servicePrefix}Log limit of ${this.maxBytes} bytes reached: ${omitted} lines left out here`;
        this.#write(Buffer.from(`${[note, ...this.#tail].join('\n')}\n`), this.#tail.length);
      }
      this.#write(Buffer.alloc(0), 0);
      fsyncSync(this.#fd);
    } catch {
      // Ignored: the job's end must be recorded even if the last bytes of its log are lost.
    } finally {
      closeSync(this.#fd);
    }
  }

  #keepTail(lines: readonly string[]): void {
    for (const line of lines) {
      this.#omitted += 1;
      this.#tail.push(line);
      this.#tailLength += sizeInTail(line);
    }
    let drop = 0;
    while (this.#tailLength > tailLength && drop < this.#tail.length - 1) {
      this.#tailLength -= sizeInTail(this.#tail[drop] ?? '');
      drop += 1;
    }
    if (drop > 0) this.#tail = this.#tail.slice(drop);
  }

  #write(bytes: Buffer, lines: number): void {
    const note = this.#lostLines === 0 ? '' : this.#lostNote();
    const whole = note === '' ? bytes : Buffer.concat([Buffer.from(note), bytes]);
    try {
      appendWhole(this.#fd, whole);
      this.#size += whole.length;
      this.#lostLines = 0;
    } catch (cause) {
      this.#lostLines += lines;
      this.#fault = faultWithoutPath(cause);
    }
  }

  #lostNote(): string {
    const lines = counted(this.#lostLines, 'line');
    return `${servicePrefix}${lines} could not be written here: ${this.#fault}\n`;
  }
}
