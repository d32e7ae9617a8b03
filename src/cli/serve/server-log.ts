import { counted, oneLine } from '../../contract/index.js';
import { Colours } from '../terminal/colours.js';
import { DirectOutput, replaceStream } from './direct-output.js';
import { type LogLevel, type LogSettings, logLevels } from './log-flags.js';

/** Milliseconds between two tries to write how many lines were lost. */
const retryInterval = 1000;

/** What a line of JSON says besides its message. */
export type LogFields = Readonly<Record<string, unknown>>;

/** Indents the lines of a stack after the first, so that none of them looks like a line of the log. */
const onLines = (text: string): string => text.split('\n').map(oneLine).join('\n    ');

const now = (): string => new Date().toISOString();

/**
 * The server's log for its admin, on stderr. A line that cannot be written is dropped and counted; the count is written as
 * soon as writing works again. So neither a full disk nor a closed terminal ends or blocks the server.
 */
export class ServerLog {
  readonly #output: DirectOutput;
  readonly #colours = new Colours(process.stderr);
  #lost = 0;
  #retry: NodeJS.Timeout | null = null;

  constructor(
    descriptor = 2,
    private readonly settings: LogSettings = { format: 'text', level: 'info' },
  ) {
    if (descriptor === 2) replaceStream(process.stderr);
    this.#output = new DirectOutput(descriptor);
  }

  /** Writes one line about the start or the end of the server: as text it has no time. */
  say(line: string): void {
    this.#write('info', line, {}, () => oneLine(line));
  }

  /** Writes a warning for the admin. */
  warn(line: string): void {
    this.#write('warn', line, {}, () => this.#colours.warning(`WARNING: ${oneLine(line)}`));
  }

  /** Writes an error, with the time and the stack. */
  report(problem: string, cause: unknown): void {
    const words = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
    this.#write('error', problem, { cause: words }, () => `${now()} ${oneLine(problem)}: ${onLines(words)}`);
  }

  /** Writes what happens while the server runs, with the time. As JSON it has the fields as well. */
  note(level: LogLevel, line: string, fields: LogFields = {}): void {
    this.#write(level, line, fields, () => `${now()} ${oneLine(line)}`);
  }

  #write(level: LogLevel, message: string, fields: LogFields, asText: () => string): void {
    if (logLevels.indexOf(level) > logLevels.indexOf(this.settings.level)) return;
    const line = this.#isJson ? JSON.stringify({ time: now(), level, message, ...fields }) : asText();
    if (this.#sayLost() && this.#output.write(`${line}\n`)) return;
    this.#lost += 1;
    this.#retry ??= setInterval(() => this.#sayLost(), retryInterval).unref();
  }

  get #isJson(): boolean {
    return this.settings.format === 'json';
  }

  /** Writes how many lines were lost, if any. @returns whether the log can be written to */
  #sayLost(): boolean {
    if (this.#lost === 0) return true;
    const lines = counted(this.#lost, 'line');
    const message = `${lines} could not be written here`;
    const line = this.#isJson ? JSON.stringify({ time: now(), level: 'warn', message }) : `(${message})`;
    if (!this.#output.write(`${line}\n`)) return false;
    this.#lost = 0;
    if (this.#retry) clearInterval(this.#retry);
    this.#retry = null;
    return true;
  }
}
