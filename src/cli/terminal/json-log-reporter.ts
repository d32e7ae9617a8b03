import { writeOut } from './standard-streams.js';
import { forJson } from './terminal-text.js';
import { TextReporter } from './text-reporter.js';

/** Prints each line of a job's log as a JSON document on one line of stdout, as it comes; hints go to stderr. */
export class JsonLogReporter extends TextReporter {
  constructor() {
    super({ stdoutIsTaken: true, all: true });
  }

  override async line(text: string, isRedraw: boolean, number?: number): Promise<boolean> {
    const document = { line: number, text, ...(isRedraw ? { redraw: true } : {}) };
    return writeOut(`${forJson(JSON.stringify(document))}\n`);
  }
}
