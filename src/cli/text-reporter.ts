import type { Reporter } from '../client/reporter.js';
import { oneLine } from '../contract/quote.js';
import { Colours } from './colours.js';
import { writeErr, writeOut } from './standard-streams.js';

/**
 * Reports to pipes and files: log lines on stdout (on stderr if stdout is a JSON document or a zip), hints on stderr, no
 * bars.
 */
export class TextReporter implements Reporter {
  readonly #colours = new Colours(process.stderr);

  constructor(readonly stdoutIsTaken: boolean) {}

  async line(text: string): Promise<boolean> {
    if (!this.stdoutIsTaken) return writeOut(`${text}\n`);
    writeErr(`${text}\n`);
    return true;
  }

  note(text: string): void {
    writeErr(`${this.#colours.hint(oneLine(text))}\n`);
  }

  waiting(): void {}

  progress(): void {}

  close(): void {}
}
