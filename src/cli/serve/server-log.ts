import { oneLine } from '../../contract/quote.js';
import { Colours } from '../terminal/colours.js';
import { DirectOutput, replaceStream } from './direct-output.js';

/** Milliseconds between two tries to write how many lines were lost. */
const retryInterval = 1000;

/** Indents the lines of a stack after the first, so that none of them looks like a line of the log. */
const onLines = (text: string): string => text.split('\n').map(oneLine).join('\n    ');

/**
 * The server's log for its admin, on stderr. A line that cannot be written is dropped and counted; the count is written as
 * soon as writing works again. So neither a full disk nor a closed terminal ends or blocks the server.
 */
export class ServerLog {
  readonly #output: DirectOutput;
  readonly #colours = new Colours(process.stderr);
  #lost = 0;
  #retry: NodeJS.Timeout | null = null;

  constructor(descriptor = 2) {
    if (descriptor === 2) replaceStream(process.stderr);
    this.#output = new DirectOutput(descriptor);
  }

  /** Writes one line. */
  say(line: string): void {
    this.#write(`${oneLine(line)}\n`);
  }

  /** Writes a warning for the admin. */
  warn(line: string): void {
    this.#write(`${this.#colours.warning(`WARNING: ${oneLine(line)}`)}\n`);
  }

  /** Writes an error, with the time and the stack. */
  report(problem: string, cause: unknown): void {
    const words = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
    this.#write(`${new Date().toISOString()} ${oneLine(problem)}: ${onLines(words)}\n`);
  }

  #write(text: string): void {
    if (this.#sayLost() && this.#output.write(text)) return;
    this.#lost += 1;
    this.#retry ??= setInterval(() => this.#sayLost(), retryInterval).unref();
  }

  /** Writes how many lines were lost, if any. @returns whether the log can be written to */
  #sayLost(): boolean {
    if (this.#lost === 0) return true;
    const lines = this.#lost === 1 ? '1 line' : `${this.#lost} lines`;
    if (!this.#output.write(`(${lines} could not be written here)\n`)) return false;
    this.#lost = 0;
    if (this.#retry) clearInterval(this.#retry);
    this.#retry = null;
    return true;
  }
}
