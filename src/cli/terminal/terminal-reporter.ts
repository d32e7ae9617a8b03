import stringWidth from 'fast-string-width';
import type { TransferPhase } from '../../client/reporter.js';
import { formatBytes, servicePrefix } from '../../contract/index.js';
import { monotonicTime } from '../../files/index.js';
import { AppBars } from './app-bars.js';
import type { CommandIo } from './command-io.js';
import { cutRow, cutToWidth } from './cut-text.js';
import { DrawnLine } from './drawn-line.js';
import { isBlank } from './log-rows.js';
import { caption } from './terminal-text.js';
import { type ReporterOptions, TextReporter, type Transfer } from './text-reporter.js';
import { formatDuration } from './time-text.js';

/** Milliseconds given to a program at the end of a pipe for writing a line to the terminal. */
const pipeTime = 150;

/** Reports to a person at a terminal: a bar for bytes, a spinner for waits, and the app's own bars, on one drawn line. */
export class TerminalReporter extends TextReporter {
  readonly #drawn: DrawnLine;
  readonly #running: (text: string) => string;
  /** What the drawn line shows. */
  #shows: 'wait' | 'transfer' | 'row' | null = null;
  readonly #logIsHere: boolean;
  readonly #bars = new AppBars();
  /** When what is waited for began to run; null while it does not. */
  #startedAt: number | null = null;

  constructor(io: CommandIo, options: ReporterOptions) {
    super(io, options);
    this.#drawn = new DrawnLine(io.stderr);
    this.#running = io.colours().state('running');
    this.#logIsHere = options.stdoutIsTaken || Boolean(io.stdout.isTTY);
  }

  override async line(text: string, isRedraw: boolean): Promise<boolean> {
    const isOfService = text.startsWith(servicePrefix);
    // A job's place in the queue is on the drawn line already.
    if (isRedraw && this.#logIsHere && !this.options.all && isOfService) return true;
    if (!this.options.all) {
      const told = isOfService ? null : this.#bars.push(text);
      if (told) return this.#showBars(text, isRedraw, told);
      if (!this.#bars.isEmpty && isBlank(text)) {
        // Text that moves or erases a bar is not a line of its own.
        if (isRedraw && text !== '') this.#bars.wipe();
        return this.#logIsHere || super.line(text, isRedraw);
      }
      const over = isOfService ? this.#bars.end() : this.#bars.interrupt();
      if (this.#logIsHere) await this.print(over);
    }
    const printed = super.line(text, isRedraw);
    if (!this.#bars.isEmpty) this.#draw('row', (columns) => this.#barLine(columns));
    else if (this.rows.state !== null)
      this.#draw('row', (columns) => cutRow(caption(this.rows.state ?? ''), columns));
    else this.#clear('row');
    return printed;
  }

  override async endLog(): Promise<boolean> {
    this.#clear('row');
    const over = this.#bars.end();
    if (this.#logIsHere) await this.print(over);
    return super.endLog();
  }

  /** Shows the progress that a line of the log reports. If the log is redirected, the line is too. */
  async #showBars(text: string, isRedraw: boolean, over: readonly string[]): Promise<boolean> {
    const printed = this.#logIsHere
      ? (await this.print(this.rows.end())) && this.print(over)
      : super.line(text, isRedraw);
    this.#draw('row', (columns) => this.#barLine(columns));
    return printed;
  }

  override waiting(what: string | null): void {
    if (what === null) {
      this.#clear('wait');
      return;
    }
    const text = caption(what);
    this.#draw('wait', (columns) => {
      const time = this.#elapsed;
      return `${this.#running(this.#drawn.glyph)} ${cutToWidth(text, columns - 2 - time.length)}${time}`;
    });
  }

  override running(isRunning: boolean): void {
    this.#startedAt = isRunning ? monotonicTime() : null;
  }

  /** How long it has been running, as the end of a line; empty while it is not running. */
  get #elapsed(): string {
    if (this.#startedAt === null) return '';
    return ` (${formatDuration((monotonicTime() - this.#startedAt) / 1000, true)} so far)`;
  }

  /** The app's bars, and how long the job has been running if that fits. */
  #barLine(columns: number): string {
    const line = this.#bars.drawing(columns);
    const time = this.#elapsed;
    return stringWidth(line) + time.length <= columns ? line + time : line;
  }

  override silent(what: string): void {
    if (this.#shows === null) this.waiting(what);
  }

  override progress(phase: TransferPhase, done: number, total: number): void {
    if (total === 0) this.waiting(`${phase} ${formatBytes(done)}`);
    super.progress(phase, done, total);
    if (this.transfer === null) this.#clear('transfer');
  }

  override close(): void {
    this.#drawn.close();
  }

  protected override moved(transfer: Transfer): void {
    this.#draw('transfer', (columns) => transfer.bar(columns, monotonicTime()));
  }

  protected override async print(rows: readonly string[]): Promise<boolean> {
    if (!this.#logIsHere && rows.length > 0) this.#drawn.pause(pipeTime);
    return super.print(rows);
  }

  #draw(what: 'wait' | 'transfer' | 'row', drawing: (columns: number) => string): void {
    this.#shows = what;
    this.#drawn.draw(drawing);
  }

  #clear(what: 'wait' | 'transfer' | 'row'): void {
    if (this.#shows !== what) return;
    this.#shows = null;
    this.#drawn.clear();
  }
}
