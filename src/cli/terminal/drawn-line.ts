import ora, { type Ora } from 'ora';
import { monotonicTime } from '../../files/index.js';
import type { OutputStream } from './command-io.js';

/** Draws a text on one line of at most this many columns, without control sequences other than colours. */
type Drawing = (columns: number) => string;

/** Columns that are left free: two for the blanks that ora puts in front, and the last one, where a terminal may wrap. */
const margin = 3;

/** Keeps a text on one row even if the terminal has just become narrower and has not reported its new width yet, as in tmux. */
const withoutWrap = (text: string): string => `\u001b[?7l${text}\u001b[?7h`;

/**
 * The one line on stderr that is redrawn in place. While it is shown, ora intercepts every write to stdout and stderr: it removes
 * the line, lets the text pass, and draws the line again below it.
 *
 * The cursor stays at the beginning of the line. The next frame therefore overwrites what the terminal itself prints there
 * (`^C`), and if the terminal becomes narrower and wraps the line, the cursor is still in its first row.
 */
export class DrawnLine {
  readonly #ora: Ora;
  readonly #glyphs: readonly string[];
  readonly #interval: number;
  #drawing: Drawing | null = null;
  #pause: NodeJS.Timeout | undefined;
  /** A late report must not draw below the command's last line, or start a timer that keeps the process alive. */
  #isClosed = false;
  readonly #onResize = () => this.#redrawAll();
  readonly #onExit = () => this.close();

  /** @param stream a terminal */
  constructor(private readonly stream: OutputStream) {
    this.#ora = ora({
      stream,
      isEnabled: true,
      // The command handles Ctrl-C itself, and a hidden cursor would stay hidden if the process were killed.
      discardStdin: false,
      hideCursor: false,
      color: false,
      suffixText: () => this.#frame(),
    });
    this.#glyphs = this.#ora.spinner.frames;
    this.#interval = this.#ora.interval;
    // The whole line is a suffix, which is computed for each frame.
    this.#ora.spinner = { interval: this.#interval, frames: [''] };
    this.stream.on('resize', this.#onResize);
    process.on('exit', this.#onExit);
  }

  /** An animated character, to show that something is happening. */
  get glyph(): string {
    return this.#glyphs[Math.floor(monotonicTime() / this.#interval) % this.#glyphs.length] ?? '';
  }

  /** Replaces what is shown. */
  draw(drawing: Drawing): void {
    if (this.#isClosed) return;
    this.#drawing = drawing;
    if (!this.#ora.isSpinning && !this.#pause) this.#ora.start();
  }

  clear(): void {
    this.#drawing = null;
    this.#hide();
  }

  /** Hides the line for some milliseconds, while another program at the end of a pipe writes to the terminal. */
  pause(milliseconds: number): void {
    this.#hide();
    clearTimeout(this.#pause);
    this.#pause = setTimeout(() => {
      this.#pause = undefined;
      if (this.#drawing) this.#ora.start();
    }, milliseconds).unref();
  }

  close(): void {
    this.#isClosed = true;
    this.clear();
    clearTimeout(this.#pause);
    this.stream.off('resize', this.#onResize);
    process.off('exit', this.#onExit);
  }

  #hide(): void {
    // ora writes control sequences even if nothing is drawn.
    if (this.#ora.isSpinning) this.#ora.stop();
  }

  #frame(): string {
    const columns = Math.max((this.stream.columns ?? 0) - margin, 0);
    return `\r${withoutWrap(this.#drawing?.(columns) ?? '')}\r`;
  }

  /**
   * Redraws the line after a resize. Also deletes the rows that the line took after wrapping. Does not start at the first column:
   * in the first row, tmux would treat that as clearing the screen, and save its content.
   */
  #redrawAll(): void {
    if (this.#ora.isSpinning) this.stream.write('\r\u001b[K\u001b[C\u001b[J\r');
  }
}
