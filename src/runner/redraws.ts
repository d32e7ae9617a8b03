import { redrawEnd } from '../contract/log-stream.js';
import type { OutputLine } from './line-splitter.js';

/** Redraws that pass before the rate is limited: a program that redraws little loses none. */
const burst = 1000;
/** Redraws a second after that: more than a person can follow. */
const perSecond = 20;

/** A text that moves the cursor up, as bars in bars do: without it the next one would be drawn in the wrong row. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the sequence that moves the cursor
const moves = /\u001b\[\d{0,2}A/;

/**
 * Limits the rate of progress redraws, so that a bar which is drawn ten thousand times a second does not fill the log.
 * The newest redraw is held back: it is written before the next line, or once the rate allows it.
 */
export class RedrawLimiter {
  #tokens = burst;
  #refilledAt: number;
  /** The redraw that is held back, as the log has it. */
  #held: string | null = null;

  constructor(private readonly now: () => number = () => performance.now()) {
    this.#refilledAt = now();
  }

  /** The lines to write to the log now, in order; a redraw keeps its carriage return. */
  pass(lines: readonly OutputLine[]): string[] {
    const passed: string[] = [];
    for (const { text, isRedraw } of lines) {
      const line = isRedraw ? text + redrawEnd : text;
      const isAlone = isRedraw && !moves.test(text);
      if (isAlone && !this.#take()) {
        this.#held = line;
        continue;
      }
      // A redraw of the same row replaces the one that is held back; any other line is written after it.
      if (this.#held !== null && !isAlone) passed.push(this.#held);
      this.#held = null;
      passed.push(line);
    }
    return passed;
  }

  /** Releases the redraw that is held back, if any: at the end of the output, or in a pause. */
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
