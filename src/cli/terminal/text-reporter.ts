import type { Reporter, TransferPhase } from '../../client/reporter.js';
import { counted, formatBytes, oneLine, servicePrefix } from '../../contract/index.js';
import { monotonicTime } from '../../files/index.js';
import type { Colours, CommandIo } from './command-io.js';
import { LogRows } from './log-rows.js';
import { forJson } from './terminal-text.js';
import { formatDuration } from './time-text.js';

/**
 * Milliseconds over which the rate is measured: short enough that the bytes first absorbed by system buffers soon stop counting.
 */
const rateWindow = 10_000;
/** Shortest time between two measurements, in milliseconds. */
const step = 250;
/** Milliseconds after which a transfer is long enough for a final summary. */
const long = 3000;

const pastOf = {
  Reading: 'Read',
  Hashing: 'Hashed',
  Packing: 'Packed',
  Drawing: 'Drawn',
  Uploading: 'Uploaded',
  Downloading: 'Downloaded',
  Extracting: 'Extracted',
} as const satisfies Record<TransferPhase, string>;

/** Unit of progress in phases that transfer no bytes. */
const counts = { Reading: 'file', Drawing: 'case' } as const;

/** Maximum and minimum width of a bar, in columns. */
const widestBar = 24;
const narrowestBar = 8;

/** One transfer of known size: its progress, its rate, and how both are displayed. Times are in milliseconds. */
export class Transfer {
  #done = 0;
  #samples: { readonly at: number; readonly done: number }[];

  constructor(
    readonly phase: TransferPhase,
    readonly total: number,
    private readonly began: number,
    /** Amount that was already there at the start. */
    private readonly first = 0,
  ) {
    this.#samples = [{ at: began, done: first }];
  }

  get done(): number {
    return this.#done;
  }

  get percent(): number {
    return Math.floor((this.#done / this.total) * 100);
  }

  isLong(now: number): boolean {
    return now - this.began >= long;
  }

  moved(done: number, now: number): void {
    this.#done = done;
    if (now - (this.#samples.at(-1)?.at ?? 0) < step) return;
    this.#samples.push({ at: now, done });
    // One sample older than the window is kept, because the rate is measured from it.
    const first = this.#samples.findIndex(({ at }) => now - at <= rateWindow);
    this.#samples = this.#samples.slice(Math.max(0, first - 1));
  }

  /** Recent rate, in bytes per second. */
  rate(now: number): number {
    const [first = { at: this.began, done: this.first }] = this.#samples;
    return ((this.#done - first.done) / Math.max(now - first.at, 1)) * 1000;
  }

  get #isCounted(): boolean {
    return this.phase in counts;
  }

  /** An amount in readable form: bytes, or a number of files or cases. */
  #amount(count: number): string {
    const what = counts[this.phase as keyof typeof counts];
    return what ? counted(Math.round(count), what) : formatBytes(count);
  }

  /** A line of at most this many columns. To make it fit, first the bar gets shorter, then figures are dropped. */
  bar(columns: number, now: number): string {
    const percent = `${this.percent}%`;
    const left = this.#left(now);
    let free = columns - this.phase.length - 1 - percent.length;
    const take = (width: number): boolean => {
      const fits = width <= free;
      if (fits) free -= width;
      return fits;
    };
    const ifFits = (text: string): string => (take(text.length) ? text : '');
    // Fitted in order of importance.
    const eta = left === null ? '' : ifFits(` ETA ${left}`);
    const moved = ifFits(` ${this.#moved}`);
    const hasBar = take(narrowestBar + '[] '.length);
    const speed = this.#speed(this.rate(now)).map((text) => ifFits(` ${text}`));
    const bar = hasBar ? this.#strip(Math.min(widestBar, narrowestBar + free)) : '';
    return `${this.phase} ${bar}${percent}${speed.join('')}${moved}${eta}`;
  }

  /** Progress as a line of a log. */
  words(now: number): string {
    const left = this.#left(now);
    const figures = [
      `${this.percent} %`,
      this.#moved,
      ...this.#speed(this.rate(now)),
      ...(left === null ? [] : [`${left} left`]),
    ];
    return `${this.phase}: ${figures.join(', ')}`;
  }

  /** The sentence at its end. */
  summary(now: number): string {
    const seconds = (now - this.began) / 1000;
    const moved = this.#done - this.first;
    const average = this.#speed(moved / seconds).map((text) => ` (${text})`);
    return `${pastOf[this.phase]} ${this.#amount(moved)} in ${formatDuration(seconds, true)}${average.join('')}`;
  }

  #strip(width: number): string {
    const filled = Math.floor((width * this.#done) / this.total);
    return `[${'='.repeat(filled)}${'-'.repeat(width - filled)}] `;
  }

  get #moved(): string {
    const done = this.#isCounted ? this.#done : this.#amount(this.#done);
    return `${done} of ${this.#amount(this.total)}`;
  }

  /** The speed; empty for less than one file or case per second. */
  #speed(rate: number): string[] {
    return this.#isCounted && rate < 1 ? [] : [`${this.#amount(Math.round(rate))}/s`];
  }

  /** The remaining time; null while it cannot be estimated. */
  #left(now: number): string | null {
    const rate = this.rate(now);
    // For bytes, less than one per second counts as no progress.
    if ((this.#isCounted ? rate <= 0 : rate < 1) || now - this.began < step) return null;
    return formatDuration((this.total - this.#done) / rate, true);
  }
}

export interface ReporterOptions {
  /** Whether stdout is a JSON document or a zip, so that a job's log goes to stderr. */
  readonly stdoutIsTaken: boolean;
  /** Whether every redraw of the job's log is shown, as a line, and not only the last. */
  readonly all: boolean;
}

/** Percentage between two progress lines. */
const percents = 10;

/**
 * Reports to pipes and files. Log lines go to stdout (to stderr if stdout is a JSON document or a zip), hints to stderr, and so
 * does a line for every ten percent of a long transfer. For progress bars in the log, only the last state is printed.
 */
export class TextReporter implements Reporter {
  readonly #colours: Colours;
  protected readonly rows = new LogRows();
  /** The transfer in progress. */
  protected transfer: Transfer | null = null;
  /** Number of `percents` steps that the transfer had passed at its last report. */
  #passed = 0;

  constructor(
    protected readonly io: CommandIo,
    protected readonly options: ReporterOptions,
  ) {
    this.#colours = io.colours();
  }

  async line(text: string, isRedraw: boolean): Promise<boolean> {
    // The service redraws its own lines only when a job's place in the queue changes: each of them counts.
    const isPlain = this.options.all || (isRedraw && text.startsWith(servicePrefix));
    return this.print(isPlain ? [text] : this.rows.push(text, isRedraw));
  }

  async endLog(): Promise<boolean> {
    return this.print(this.rows.end());
  }

  note(text: string): void {
    this.io.writeErr(`${this.#colours.hint(oneLine(text))}\n`);
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
    // A transfer that is restarted begins with fewer bytes.
    if (transfer?.phase !== phase || transfer.total !== total || done < transfer.done) {
      transfer = new Transfer(phase, total, now, done);
      this.#passed = 0;
    }
    transfer.moved(done, now);
    this.transfer = done < total ? transfer : null;
    if (done < total) this.moved(transfer, now);
    else if (transfer.isLong(now)) this.note(transfer.summary(now));
  }

  close(): void {}

  [Symbol.dispose](): void {
    this.close();
  }

  /** Reports a transfer in progress. */
  protected moved(transfer: Transfer, now: number): void {
    const passed = Math.floor(transfer.percent / percents);
    if (passed > this.#passed && transfer.isLong(now)) this.note(transfer.words(now));
    this.#passed = passed;
  }

  protected async print(rows: readonly string[]): Promise<boolean> {
    const text = rows.map((row) => `${row}\n`).join('');
    if (!this.options.stdoutIsTaken) return text === '' || this.io.writeOut(text);
    if (text !== '') this.io.writeErr(text);
    return true;
  }
}

/** Prints each line of a job's log as a JSON document on one line of stdout, as it comes; hints go to stderr. */
export class JsonLogReporter extends TextReporter {
  constructor(io: CommandIo) {
    super(io, { stdoutIsTaken: true, all: true });
  }

  override async line(text: string, isRedraw: boolean, number?: number): Promise<boolean> {
    const document = { line: number, text, ...(isRedraw ? { redraw: true } : {}) };
    return this.io.writeOut(`${forJson(JSON.stringify(document))}\n`);
  }
}
