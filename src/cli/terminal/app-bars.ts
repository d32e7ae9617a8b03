import { stripVTControlCharacters } from 'node:util';
import stringWidth from 'fast-string-width';
import { cutToWidth } from './cut-text.js';
import { caption } from './terminal-text.js';

/** The progress that an app reports on one line. */
export interface Progress {
  /** What is being done, as the app puts it; empty if it does not say. */
  readonly what: string;
  readonly percent: number;
  /** As the app writes them: `45`, `1.2k`; null if it does not say. */
  readonly done: string | null;
  readonly total: string | null;
  /** Remaining time, as the app writes it; null if it does not say. */
  readonly left: string | null;
}

/** Longest line that is examined, in characters. */
const maxLength = 1000;

/** What precedes the percentage: words, and perhaps a colon. */
const words = String.raw`(?:(?<what>\S.{0,599}?)\s*:?\s+|(?<close>\S.{0,599}?):)?`;
const percents = String.raw`(?<percent>\d{1,3})(?:\.\d+)?\s?%`;
/** The bar that tqdm draws, in block characters or in ASCII. */
const strip = String.raw`\|[ \d#=>.\-\u2580-\u259f]*`;
const drawing = String.raw`${strip}\|\s*`;
const counts = String.raw`(?<done>\d[\d.]*[kMGTP]?)\s?\/\s?(?<total>\d[\d.]*[kMGTP]?)`;
/** Elapsed and remaining time, then a rate and other details. */
const times = String.raw`(?:\s*\[[^\]<]{0,40}<\s*(?<left>[\d:?. a-z]{1,20}?)\s*(?:,[^\]]*)?\].{0,100})?`;

/** Parts that may change from one state of a bar to the next: KonfAI shows its memory use there. */
const detail = /\s*[:(].*$/su;

const shape = new RegExp(String.raw`^\s*${words}${percents}(?:${drawing}|\s+)${counts}${times}\s*$`, 'u');
/** A bar without counts, which may be cut short. */
const bare = new RegExp(String.raw`^\s*${words}${percents}${strip}\|?\s*$`, 'u');

/**
 * Reads the progress that a line reports, as KonfAI's and other tqdm programs write it:
 * `45%|###   | 45/100 [00:10<00:12]`, `Prediction : 45% 3/25`.
 * @returns null for any other line
 */
export function readProgress(line: string): Progress | null {
  if (line.length > maxLength || !line.includes('%')) return null;
  const text = stripVTControlCharacters(line);
  const found = (shape.exec(text) ?? bare.exec(text))?.groups;
  if (!found) return null;
  const { what = found.close ?? '', percent = '', done = null, total = null, left } = found;
  const known = left === undefined || left.includes('?') ? null : left;
  return {
    what: what.replace(detail, ''),
    percent: Math.min(Number(percent), 100),
    done,
    total,
    left: known,
  };
}

/** Widest and narrowest bar, in columns. */
const widestBar = 24;
const narrowestBar = 8;

/** Widest name of a bar, and the narrowest to which it is cut to leave columns for the bar. */
const widestName = 40;
const narrowestName = 10;

/** A bar of the app: its last state. */
interface Bar extends Progress {
  /** The line that reported it. */
  readonly line: string;
}

const isSame = (a: Progress, b: Progress): boolean => a.what === b.what && a.total === b.total;
const isOver = ({ percent }: Progress): boolean => percent === 100;

/**
 * The progress bars of an app, read from its lines. If bars are nested, the outer one counts: the first that appeared and
 * has not finished.
 */
export class AppBars {
  /** The outer one first. */
  #bars: Bar[] = [];
  /** The bar of the last line. */
  #last: Bar | null = null;
  /** Whether other lines came after the outer bar: the app may have abandoned it. */
  #isDoubtful = false;

  get isEmpty(): boolean {
    return this.#bars.length === 0;
  }

  /**
   * Takes a line.
   * @returns the rows of finished bars, which stay on the screen; null if the line is not about a bar
   */
  push(line: string): string[] | null {
    const progress = readProgress(line);
    if (!progress) return null;
    const bar = { ...progress, line };
    const at = this.#bars.findIndex((each) => isSame(each, bar));
    const before = this.#bars[at];
    const isNewRun = before !== undefined && isOver(before) && !isOver(bar);
    const [outer] = this.#bars;
    this.#last = bar;
    if (outer && ((at === 0 && isNewRun) || (at < 0 && (isOver(outer) || this.#isDoubtful)))) {
      this.#bars = [bar];
      this.#isDoubtful = false;
      return [outer.line];
    }
    if (at === 0) this.#isDoubtful = false;
    if (at >= 0) this.#bars[at] = bar;
    // Finished inner bars are dropped when another one begins.
    else this.#bars = [...this.#bars.filter((each, index) => index === 0 || !isOver(each)), bar];
    return [];
  }

  /**
   * Another line arrived. Returns the row of a finished outer bar, which stays; an unfinished bar continues below the
   * line.
   */
  interrupt(): string[] {
    const [outer] = this.#bars;
    if (outer && isOver(outer)) return this.end();
    this.#isDoubtful = outer !== undefined;
    return [];
  }

  /** The app has erased the bar of its last line. */
  wipe(): void {
    this.#bars = this.#bars.filter((bar) => bar !== this.#last);
  }

  /** Forgets all bars. Returns the row of the outer one, which stays. */
  end(): string[] {
    const [outer] = this.#bars;
    this.#bars = [];
    this.#isDoubtful = false;
    return outer ? [outer.line] : [];
  }

  /**
   * A line of at most this many columns: the label, a bar, the percentage, counts and the remaining time, and an inner
   * bar if it fits.
   */
  drawing(columns: number): string {
    const [outer, ...inner] = this.#bars;
    if (!outer) return '';
    const { percent, done, total, left } = outer;
    const counts = done === null ? '' : ` ${done}/${total}`;
    const figures = `${percent}%${counts}${left === null ? '' : ` ${left} left`}`;
    const what = caption(outer.what);
    let free = columns - figures.length;
    if (free < 0) return cutToWidth(figures, columns);
    // A long name is cut to leave columns for the bar, but not so far that two names look alike.
    const besidesBar = free - 1 - (narrowestBar + 3);
    const widest = Math.min(widestName, besidesBar >= narrowestName ? besidesBar : free - 1);
    const name = what === '' || free < 2 ? '' : `${cutToWidth(what, widest)} `;
    free -= stringWidth(name);
    const hasBar = free >= narrowestBar + 3;
    const width = hasBar ? Math.min(widestBar, free - 3) : 0;
    const filled = Math.floor((width * percent) / 100);
    const bar = hasBar ? `[${'='.repeat(filled)}${'-'.repeat(width - filled)}] ` : '';
    free -= bar.length;
    const current = inner.at(-1);
    const more = current
      ? ` > ${[caption(current.what), `${current.percent}%`].filter(Boolean).join(' ')}`
      : '';
    return name + bar + figures + (stringWidth(more) <= free ? more : '');
  }
}
