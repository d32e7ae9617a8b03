import { SingleBar } from 'cli-progress';
import ora from 'ora';
import type { Stage } from '../client/reporter.js';
import { formatBytes } from '../contract/bytes.js';
import { hasColour } from './colours.js';
import { caption } from './terminal-text.js';
import { TextReporter } from './text-reporter.js';

/** The values that a bar shows. */
interface Figures {
  readonly stage: Stage;
  readonly moved: string;
  readonly rate: string;
}

/** Reports to a person at a terminal: bars for bytes and a spinner for waits, both on stderr. */
export class TerminalReporter extends TextReporter {
  readonly #spinner = ora({
    stream: process.stderr,
    // The spinner must not handle Ctrl-C or change the cursor: the command does that itself.
    discardStdin: false,
    hideCursor: false,
    color: hasColour(process.stderr) ? 'cyan' : false,
  });
  #bar: { stage: Stage; bar: SingleBar; since: number } | null = null;
  /** A late report must not draw below the command's last line, nor start a timer that keeps the process alive. */
  #isClosed = false;

  override async line(text: string): Promise<boolean> {
    this.#endBar();
    const waited = this.#spinner.isSpinning;
    if (waited) this.#spinner.clear();
    const read = await super.line(text);
    if (waited) this.#spinner.render();
    return read;
  }

  override note(text: string): void {
    this.#endBar();
    const waited = this.#spinner.isSpinning;
    if (waited) this.#spinner.clear();
    super.note(text);
    if (waited) this.#spinner.render();
  }

  override waiting(what: string | null = null): void {
    this.#endBar();
    if (this.#isClosed) return;
    if (what === null) {
      if (this.#spinner.isSpinning) this.#spinner.stop();
    } else if (this.#spinner.isSpinning) {
      this.#spinner.text = caption(what);
    } else {
      this.#spinner.start(caption(what));
    }
  }

  override progress(stage?: Stage, done = 0, total = 0): void {
    if (stage === undefined || this.#isClosed) return;
    if (total === 0) {
      this.waiting(`${stage} ${formatBytes(done)}`);
      return;
    }
    if (this.#spinner.isSpinning) this.#spinner.stop();
    if (this.#bar?.stage !== stage) this.#startBar(stage, total);
    if (!this.#bar) return;
    const elapsed = Math.max((performance.now() - this.#bar.since) / 1000, 0.001);
    this.#bar.bar.setTotal(total);
    this.#bar.bar.update(done, figures(stage, done, total, done / elapsed));
    if (done >= total) this.#endBar();
  }

  override close(): void {
    this.waiting(null);
    this.#isClosed = true;
  }

  #startBar(stage: Stage, total: number): void {
    this.#endBar();
    const bar = new SingleBar({
      stream: process.stderr,
      format: '{stage} [{bar}] {percentage}% {moved} {rate} ETA {eta_formatted}',
      barsize: 24,
      etaBuffer: 50,
    });
    bar.start(total, 0, figures(stage, 0, total, 0));
    this.#bar = { stage, bar, since: performance.now() };
  }

  #endBar(): void {
    this.#bar?.bar.stop();
    this.#bar = null;
  }
}

function figures(stage: Stage, done: number, total: number, rate: number): Figures {
  return {
    stage,
    moved: `${formatBytes(done)} of ${formatBytes(total)}`,
    rate: `${formatBytes(Math.round(rate))}/s`,
  };
}
