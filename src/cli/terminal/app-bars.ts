import stringWidth from 'fast-string-width';
import { cutToWidth } from './drawn-line.js';
import { type Progress, readProgress } from './progress-line.js';
import { caption } from './terminal-text.js';

/** Widest bar, in columns, and the least that says anything. */
const widestBar = 24;
const narrowestBar = 8;

/** Widest name of a bar, and the least that it is cut to for the bar's sake. */
const widestName = 40;
const narrowestName = 10;

/** A bar of the app: its last state. */
interface Bar extends Progress {
  /** The line that told of it. */
  readonly line: string;
}

const isSame = (a: Progress, b: Progress): boolean => a.what === b.what && a.total === b.total;
const isOver = ({ percent }: Progress): boolean => percent === 100;

/**
 * The progress bars of an app, from the lines that tell of them. Of bars inside each other the outer one counts: it is the
 * first one that was there and is not at its end.
 */
export class AppBars {
  /** The outer one first. */
  #bars: Bar[] = [];
  /** The one that was told of last. */
  #last: Bar | null = null;
  /** Whether other lines came since the outer one was told of: the app may have left it where it is. */
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
    // Inner bars that are at their end are over when another one begins.
    else this.#bars = [...this.#bars.filter((each, index) => index === 0 || !isOver(each)), bar];
    return [];
  }

  /** Another line came. Returns the row that stays of a bar that is at its end; another bar goes on below the line. */
  interrupt(): string[] {
    const [outer] = this.#bars;
    if (outer && isOver(outer)) return this.end();
    this.#isDoubtful = outer !== undefined;
    return [];
  }

  /** The app has wiped the bar that it told of last. */
  wipe(): void {
    this.#bars = this.#bars.filter((bar) => bar !== this.#last);
  }

  /** The row that stays of the outer bar; there is none any more. */
  end(): string[] {
    const [outer] = this.#bars;
    this.#bars = [];
    this.#isDoubtful = false;
    return outer ? [outer.line] : [];
  }

  /** A line of at most so many columns: what, a bar, percents, counts and the time left; an inner bar where it fits. */
  drawing(room: number): string {
    const [outer, ...inner] = this.#bars;
    if (!outer) return '';
    const { percent, done, total, left } = outer;
    const counts = done === null ? '' : ` ${done}/${total}`;
    const figures = `${percent}%${counts}${left === null ? '' : ` ${left} left`}`;
    const what = caption(outer.what);
    let free = room - figures.length;
    if (free < 0) return cutToWidth(figures, room);
    // A long name is cut to leave columns for the bar, but not so far that two names look the same.
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
