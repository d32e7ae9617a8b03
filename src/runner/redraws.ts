import type { OutputLine } from './line-splitter.js';

/** Redraws that pass at once, before the rate counts: a program that redraws little loses none. */
const burst = 1000;
/** Redraws a second after that: more than an eye follows. */
const perSecond = 20;

/**
 * Bounds the rate of progress redraws, so that a bar drawn ten thousand times a second does not fill the log.
 * The newest redraw held back is kept: it appears before the next line, or once the rate allows it.
 */
export class RedrawLimiter {
  #tokens = burst;
  #refilledAt: number;
  #held: string | null = null;

  constructor(private readonly now: () => number = () => performance.now()) {
    this.#refilledAt = now();
  }

  /** The texts, in order, that these lines put into the log now. */
  pass(lines: readonly OutputLine[]): string[] {
    const passed: string[] = [];
    for (const { text, isRedraw } of lines) {
      if (isRedraw && !this.#take()) {
        this.#held = text;
        continue;
      }
      // A redraw replaces the one that was held; a whole line comes after it.
      if (this.#held !== null && !isRedraw) passed.push(this.#held);
      this.#held = null;
      passed.push(text);
    }
    return passed;
  }

  /** What is held back, if anything: for the end of the output, or a pause in it. */
  flush(): string[] {
    const held = this.#held;
    this.#held = null;
    return held === null ? [] : [held];
  }

  #take(): boolean {
    const now = this.now();
    this.#tokens = Math.min(burst, this.#tokens + ((now - this.#refilledAt) / 1000) * perSecond);
    this.#refilledAt = now;
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }
}
