import stringWidth from 'fast-string-width';
import type { TransferPhase } from '../../client/reporter.js';
import { formatBytes, servicePrefix } from '../../contract/index.js';
import { monotonicTime } from '../../files/index.js';
import type { CommandIo } from './command-io.js';
import { cutRow, cutToWidth } from './cut-text.js';
import { DrawnLine } from './drawn-line.js';
import { caption } from './terminal-text.js';
import { type ReporterOptions, TextReporter, type Transfer } from './text-reporter.js';
import { formatDuration } from './time-text.js';

/**
 * A state of a progress bar, as tqdm and KonfAI write it: `45%|###   | 45/100`, `Case 45% 3/25`. KonfAI's server sends each state as
 * a line of its own.
 */
const barState = /\b\d{1,3}(\.\d+)?\s?%(\|[^|]*\|)?\s*\d[\d.]*[kMGTP]?\s?\//;

/** Milliseconds given to a program at the end of a pipe for writing a line to the terminal. */
const pipeTime = 150;

/**
 * Reports on a terminal: a bar for transfers, a spinner for waits, and the latest state of an app's bar, all on one drawn line.
 */
export class TerminalReporter extends TextReporter {
  readonly #drawn: DrawnLine;
  readonly #running: (text: string) => string;
  /** What the drawn line shows. */
  #shows: 'wait' | 'transfer' | 'row' | null = null;
  readonly #logIsHere: boolean;
  /** When the job or step being waited for started running; null while it is not running. */
  #startedAt: number | null = null;

  constructor(io: CommandIo, options: ReporterOptions) {
    super(io, options);
    this.#drawn = new DrawnLine(io.stderr);
    this.#running = io.colours().state('running');
    this.#logIsHere = options.stdoutIsTaken || Boolean(io.stdout.isTTY);
  }

  override async line(text: string, isRedraw: boolean): Promise<boolean> {
    const isOfService = text.startsWith(servicePrefix);
    // The drawn line already shows the job's place in the queue.
    if (isRedraw && this.#logIsHere && !this.options.all && isOfService) return true;
    const isBar = !this.options.all && this.#logIsHere && !isOfService && barState.test(text);
    const printed = super.line(text, isRedraw || isBar);
    const { state } = this.rows;
    if (state === null) this.#clear('row');
    else this.#draw('row', (columns) => this.#withElapsed(cutRow(caption(state), columns), columns));
    return printed;
  }

  override async endLog(): Promise<boolean> {
    this.#clear('row');
    return super.endLog();
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

  /** The line, followed by the run time if that fits. */
  #withElapsed(line: string, columns: number): string {
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
