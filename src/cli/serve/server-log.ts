import { constants, fstatSync, openSync, writeSync } from 'node:fs';
import { counted, oneLine } from '../../contract/index.js';
import { errorCode, isOutOfInodes } from '../../files/index.js';
import { Colours } from '../terminal/index.js';
import { type LogFields, type LogLevel, type LogSettings, logLevels, logLine } from './flags.js';

/** Size of one write, in bytes: a pipe accepts this many all at once or not at all. */
const pieceLength = 4096;

const { O_APPEND, O_NOCTTY, O_NONBLOCK, O_WRONLY } = constants;

/** Where log lines go. */
export interface Output {
  /** @returns whether the whole text was written */
  write(text: string): boolean;
}

/**
 * Writes text to a descriptor at once, without waiting and without throwing: the disk may be full, the terminal closed,
 * or the pipe full because nobody reads it. Node's streams cannot do that: a file stream ends at its first error, and a
 * pipe stream buffers everything in memory.
 */
export class DirectOutput implements Output {
  /** The open descriptor; null until the first write, and while a pipe has no reader. */
  #target: number | null = null;
  /** Whether the last write ended in the middle of a line. */
  #isMidLine = false;

  constructor(private readonly descriptor: number) {}

  /** @returns whether the whole text was written */
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
   * Reopens a pipe or a terminal with O_NONBLOCK. The flag belongs to the open file description, and other processes share the
   * one that this process inherited. A file does not need the flag. A socket cannot be reopened, but Node has already set the
   * flag on it (`replaceStream`).
   */
  #open(): number {
    const stat = fstatSync(this.descriptor);
    if (!stat.isFIFO() && !stat.isCharacterDevice()) return this.descriptor;
    try {
      return openSync(`/proc/self/fd/${this.descriptor}`, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY);
    } catch (cause) {
      // The pipe has no reader now; it may get one later.
      if (errorCode(cause) === 'ENXIO') throw cause;
      return this.descriptor;
    }
  }
}

/**
 * Makes one of Node's standard streams harmless in a process that writes to the descriptor directly: code that still writes to
 * the stream can no longer end the process with an unhandled error. Creating the stream makes Node set a pipe or socket to
 * non-blocking.
 */
export function replaceStream(stream: NodeJS.WriteStream): void {
  stream.removeAllListeners('error');
  stream.on('error', () => {});
}

/** Milliseconds between two attempts to report the number of lost lines. */
const retryInterval = 1000;

/** Indents all lines of a stack but the first, so that none of them looks like a line of the log. */
const onLines = (text: string): string => text.split('\n').map(oneLine).join('\n    ');

const now = (): string => new Date().toISOString();

/** The systemd journal's level prefixes (sd-daemon(3)). */
const journalLevels = { error: '<3>', warn: '<4>', info: '<6>', debug: '<7>' } as const;

/**
 * Whether a descriptor leads to the systemd journal.
 * @param stream the variable in which systemd names the journal's stream (systemd.exec(5))
 */
export function leadsToJournal(descriptor: number, stream: string | undefined): boolean {
  if (!stream) return false;
  const { dev, ino } = fstatSync(descriptor);
  return stream === `${dev}:${ino}`;
}

/**
 * The server's log for its admin, on stderr. A line that cannot be written is dropped and counted; the count is written
 * as soon as writing works again. So a full disk or a closed terminal neither ends nor blocks the server.
 */
export class ServerLog {
  readonly #colours: Colours;
  #lost = 0;
  #retry: NodeJS.Timeout | null = null;

  constructor(
    private readonly output: Output,
    private readonly settings: LogSettings = { format: 'text', level: 'info' },
    /** Whether the log goes to the systemd journal, which adds its own times and levels. */
    private readonly isJournal = false,
  ) {
    this.#colours = new Colours(process.stderr, process.env);
  }

  /** Writes a line about the start or end of the server; in text format, without the time. */
  say(line: string): void {
    this.#write('info', line, {}, () => oneLine(line));
  }

  /** Writes a warning for the admin. */
  warn(line: string): void {
    this.#write('warn', line, {}, () => this.#colours.warning(`WARNING: ${oneLine(line)}`));
  }

  /** Writes an error, with the time and the stack. */
  report(problem: string, cause: unknown): void {
    const text = cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
    // The system reports a full disk with the same words.
    const words = isOutOfInodes(cause)
      ? `no inodes (files) are left on its disk: remove files there\n${text}`
      : text;
    this.#write(
      'error',
      problem,
      { cause: words },
      () => `${this.#time}${oneLine(problem)}: ${onLines(words)}`,
    );
  }

  /** Writes a line about the running server, with the time. In JSON format it also has the fields. */
  note(level: LogLevel, line: string, fields: LogFields = {}): void {
    this.#write(level, line, fields, () => `${this.#time}${oneLine(line)}`);
  }

  #write(level: LogLevel, message: string, fields: LogFields, asText: () => string): void {
    if (logLevels.indexOf(level) > logLevels.indexOf(this.settings.level)) return;
    const line = this.#isJson ? logLine(level, message, fields) : asText();
    if (this.#sayLost() && this.output.write(this.#lines(level, line))) return;
    this.#lost += 1;
    this.#retry ??= setInterval(() => this.#sayLost(), retryInterval).unref();
  }

  get #isJson(): boolean {
    return this.settings.format === 'json';
  }

  get #time(): string {
    return this.isJournal ? '' : `${now()} `;
  }

  /** A line in the format of the log, for another output. */
  format(line: string): string {
    return this.#isJson ? logLine('info', line) : line;
  }

  /** The text as it is written; for the journal, with the level in front of each line. */
  #lines(level: LogLevel, text: string): string {
    const lines = this.isJournal ? text.split('\n').map((line) => journalLevels[level] + line) : [text];
    return `${lines.join('\n')}\n`;
  }

  /** Writes how many lines were lost, if any. @returns whether the log can be written to */
  #sayLost(): boolean {
    if (this.#lost === 0) return true;
    const lines = counted(this.#lost, 'line');
    const message = `${lines} could not be written here`;
    const line = this.#isJson ? logLine('warn', message) : `(${message})`;
    if (!this.output.write(this.#lines('warn', line))) return false;
    this.#lost = 0;
    if (this.#retry) clearInterval(this.#retry);
    this.#retry = null;
    return true;
  }
}
