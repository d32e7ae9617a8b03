import type { TransferPhase } from '../../client/reporter.js';
import { formatBytes } from '../../contract/index.js';
import { formatDuration } from './time-text.js';

/** Milliseconds over which the rate is measured: what the system's buffers took at first is soon forgotten. */
const rateWindow = 10_000;
/** Least milliseconds between two measurements. */
const step = 250;
/** Milliseconds from which on a transfer is long enough to say how it went. */
const long = 3000;

const pastOf = {
  Packing: 'Packed',
  Uploading: 'Uploaded',
  Downloading: 'Downloaded',
  Extracting: 'Extracted',
} as const satisfies Record<TransferPhase, string>;

/** Widest bar, in columns, and the least that says anything. */
const widestBar = 24;
const narrowestBar = 8;

const percentOf = (done: number, total: number): number => Math.floor((done / total) * 100);

/** One transfer of a known number of bytes: how far it is, how fast, and how that is told. Times are in milliseconds. */
export class Transfer {
  #done = 0;
  #samples: { readonly at: number; readonly done: number }[];

  constructor(
    readonly phase: TransferPhase,
    readonly total: number,
    private readonly began: number,
  ) {
    this.#samples = [{ at: began, done: 0 }];
  }

  get done(): number {
    return this.#done;
  }

  get percent(): number {
    return percentOf(this.#done, this.total);
  }

  isLong(now: number): boolean {
    return now - this.began >= long;
  }

  moved(done: number, now: number): void {
    this.#done = done;
    if (now - (this.#samples.at(-1)?.at ?? 0) < step) return;
    this.#samples.push({ at: now, done });
    // One sample that is older than the window stays: the rate is measured from it.
    const first = this.#samples.findIndex(({ at }) => now - at <= rateWindow);
    this.#samples = this.#samples.slice(Math.max(0, first - 1));
  }

  /** Bytes a second, lately; a transfer that stands still slows down. */
  rate(now: number): number {
    const [first = { at: this.began, done: 0 }] = this.#samples;
    return ((this.#done - first.done) / Math.max(now - first.at, 1)) * 1000;
  }

  /** A line of at most so many columns. What does not fit is left out: first the bar gets shorter, then figures go. */
  bar(room: number, now: number): string {
    const percent = `${this.percent}%`;
    const left = this.#left(now);
    let free = room - this.phase.length - 1 - percent.length;
    const take = (width: number): boolean => {
      const fits = width <= free;
      if (fits) free -= width;
      return fits;
    };
    const ifFits = (text: string): string => (take(text.length) ? text : '');
    // The most important first.
    const eta = left === null ? '' : ifFits(` ETA ${left}`);
    const moved = ifFits(` ${this.#moved}`);
    const hasBar = take(narrowestBar + '[] '.length);
    const speed = ifFits(` ${this.#speed(now)}`);
    const bar = hasBar ? this.#strip(Math.min(widestBar, narrowestBar + free)) : '';
    return `${this.phase} ${bar}${percent}${speed}${moved}${eta}`;
  }

  /** A line of a log. */
  words(now: number): string {
    const left = this.#left(now);
    const figures = [
      `${this.percent} %`,
      this.#moved,
      this.#speed(now),
      ...(left === null ? [] : [`${left} left`]),
    ];
    return `${this.phase}: ${figures.join(', ')}`;
  }

  /** The sentence at its end. */
  summary(now: number): string {
    const seconds = (now - this.began) / 1000;
    const average = `${formatBytes(Math.round(this.#done / seconds))}/s`;
    return `${pastOf[this.phase]} ${formatBytes(this.#done)} in ${formatDuration(seconds, true)} (${average})`;
  }

  #strip(width: number): string {
    const filled = Math.floor((width * this.#done) / this.total);
    return `[${'='.repeat(filled)}${'-'.repeat(width - filled)}] `;
  }

  get #moved(): string {
    return `${formatBytes(this.#done)} of ${formatBytes(this.total)}`;
  }

  #speed(now: number): string {
    return `${formatBytes(Math.round(this.rate(now)))}/s`;
  }

  /** The time that is left in words; null while it cannot be told. */
  #left(now: number): string | null {
    const rate = this.rate(now);
    if (rate < 1 || now - this.began < step) return null;
    return formatDuration((this.total - this.#done) / rate, true);
  }
}
