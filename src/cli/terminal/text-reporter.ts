import type { Reporter, TransferPhase } from '../../client/reporter.js';
import { oneLine, servicePrefix } from '../../contract/index.js';
import { monotonicTime } from '../../files/index.js';
import { Colours } from './colours.js';
import { LogRows } from './log-rows.js';
import { writeErr, writeOut } from './standard-streams.js';
import { Transfer } from './transfer.js';

export interface ReporterOptions {
  /** Whether stdout is a JSON document or a zip, so that a job's log goes to stderr. */
  readonly stdoutIsTaken: boolean;
  /** Whether every redraw of the job's log is shown, as a line, and not only the last. */
  readonly all: boolean;
}

/** Percents of a transfer from one line to the next. */
const percents = 10;

/**
 * Reports to pipes and files: log lines on stdout (on stderr if stdout is a JSON document or a zip), hints on stderr, and
 * there a line every ten percent of a transfer that takes long. Of a progress bar in the log the last state stays.
 */
export class TextReporter implements Reporter {
  readonly #colours = new Colours(process.stderr);
  protected readonly rows = new LogRows();
  /** The transfer under way. */
  protected transfer: Transfer | null = null;
  /** How many steps of `percents` the transfer had passed at its last report. */
  #passed = 0;

  constructor(protected readonly options: ReporterOptions) {}

  async line(text: string, isRedraw: boolean): Promise<boolean> {
    // The service redraws its own lines only when a job's place in the queue changes: each of them counts.
    const isPlain = this.options.all || (isRedraw && text.startsWith(servicePrefix));
    return this.print(isPlain ? [text] : this.rows.push(text, isRedraw));
  }

  async endLog(): Promise<boolean> {
    return this.print(this.rows.end());
  }

  note(text: string): void {
    writeErr(`${this.#colours.hint(oneLine(text))}\n`);
  }

  waiting(what: string | null, isNews = false): void {
    if (what !== null && isNews) this.note(what);
  }

  running(_isRunning: boolean): void {}

  silent(_what: string): void {}

  progress(phase: TransferPhase, done: number, total: number): void {
    if (total === 0) return;
    const now = monotonicTime();
    let transfer = this.transfer;
    // A transfer that is started again begins with fewer bytes.
    if (transfer?.phase !== phase || transfer.total !== total || done < transfer.done) {
      transfer = new Transfer(phase, total, now);
      this.#passed = 0;
    }
    transfer.moved(done, now);
    this.transfer = done < total ? transfer : null;
    if (done < total) this.moved(transfer, now);
    else if (transfer.isLong(now)) this.note(transfer.summary(now));
  }

  close(): void {}

  /** Tells of a transfer under way. */
  protected moved(transfer: Transfer, now: number): void {
    const passed = Math.floor(transfer.percent / percents);
    if (passed > this.#passed && transfer.isLong(now)) this.note(transfer.words(now));
    this.#passed = passed;
  }

  protected async print(rows: readonly string[]): Promise<boolean> {
    const text = rows.map((row) => `${row}\n`).join('');
    if (!this.options.stdoutIsTaken) return text === '' || writeOut(text);
    if (text !== '') writeErr(text);
    return true;
  }
}
