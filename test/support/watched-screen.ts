import { Screen } from './screen.js';
import { until } from './until.mjs';

/** The screen of a terminal, and all that the terminal was sent. */
export class WatchedScreen {
  readonly screen: Screen;
  /** All that the terminal was sent. */
  written = '';

  constructor(columns: number) {
    this.screen = new Screen(columns);
  }

  get rows(): string[] {
    return this.screen.rows;
  }

  /** Waits until a row of the screen matches. */
  async shows(row: RegExp): Promise<void> {
    await until(`the terminal shows ${row}`, () => this.rows.some((each) => row.test(each))).catch(
      (cause) => {
        throw new Error(`${cause.message}; it shows:\n${this.rows.join('\n')}`);
      },
    );
  }

  /** Waits until something that matches is sent after this position. */
  async sends(before: number, text: RegExp): Promise<void> {
    await until(`the terminal is sent ${text}`, () => text.test(this.written.slice(before)));
  }

  protected show(text: string): void {
    this.written += text;
    this.screen.write(text);
  }
}
