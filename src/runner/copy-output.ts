import type { Readable } from 'node:stream';
import { LineSplitter, type OutputLine } from './line-splitter.js';
import type { LogFile } from './log-file.js';
import { asCommandLine } from './own-lines.js';
import { RedrawLimiter } from './redraws.js';

/** Milliseconds after which a redraw that is held back is written, and a lone carriage return ends a line. */
const redrawPause = 250;

/** Writes a command's output into its log, as lines. */
export class OutputLog {
  readonly #lines = new LineSplitter();
  readonly #redraws = new RedrawLimiter();
  #pause: NodeJS.Timeout | undefined;

  constructor(private readonly log: LogFile) {}

  push(chunk: Buffer): void {
    this.#append(this.#lines.push(chunk));
    this.#pause ??= setTimeout(() => {
      this.#pause = undefined;
      this.#append(this.#lines.pause());
      this.log.append(this.#redraws.flush());
    }, redrawPause).unref();
  }

  /** Writes what was held back, at the end of the output. */
  end(): void {
    clearTimeout(this.#pause);
    this.#append(this.#lines.end());
    this.log.append(this.#redraws.flush());
  }

  #append(lines: readonly OutputLine[]): void {
    this.log.append(this.#redraws.pass(lines.map(asCommandLine)));
  }
}

/** Copies the command's output into its log, until the last process has closed the pipe. */
export function copyOutput(reader: Readable, log: LogFile): Promise<void> {
  const output = new OutputLog(log);
  reader.on('data', (chunk: Buffer) => output.push(chunk));
  // A pipe that fails is treated as closed.
  reader.on('error', () => reader.destroy());
  return new Promise((resolve) => {
    reader.once('close', () => {
      output.end();
      resolve();
    });
  });
}
