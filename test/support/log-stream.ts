import { linesOf } from './log-lines.mjs';
import { until } from './until.mjs';

/** An open log stream, read as text without the client's parser. */
export class LogFollower implements AsyncDisposable {
  /** Everything received, unchanged. */
  text = '';
  #hasEnded = false;
  readonly #whole: Promise<void>;

  constructor(
    readonly response: Response,
    private readonly abort: AbortController,
  ) {
    this.#whole = this.#read();
  }

  /** The data of the events so far. */
  get lines(): string[] {
    return linesOf(this.text);
  }

  /** Waits for a line. */
  async until(wanted: string | RegExp): Promise<string> {
    const matches = (line: string) => (typeof wanted === 'string' ? line === wanted : wanted.test(line));
    return until(`the log's line ${wanted}`, () => {
      const found = this.lines.find(matches);
      if (found === undefined && this.#hasEnded) throw new Error(`No ${wanted} in the log:\n${this.text}`);
      return found === undefined ? undefined : { found };
    }).then(({ found }) => found);
  }

  /** Waits for the end of the stream; returns its text. */
  async end(): Promise<string> {
    await this.#whole;
    return this.text;
  }

  /** Cuts the connection. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.abort.abort();
    await this.#whole;
  }

  async #read(): Promise<void> {
    const decoder = new TextDecoder();
    try {
      for await (const chunk of this.response.body ?? []) {
        this.text += decoder.decode(chunk, { stream: true });
      }
    } catch (cause) {
      if (!this.abort.signal.aborted) throw cause;
    } finally {
      this.#hasEnded = true;
    }
  }
}

/** The lines of the app, without the service's own and without the marker. */
export const appLines = (text: string): string[] =>
  linesOf(text)
    .slice(0, -1)
    .filter((line) => !line.startsWith('[remote-app] '));
