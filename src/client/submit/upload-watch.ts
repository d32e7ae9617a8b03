import { TransportError } from '../errors.js';

/** How long an interrupted command waits for the answer to a body that is completely sent, in milliseconds. */
const lastWord = 5000;

/**
 * Ends one request. If `signal` is aborted while the body is being sent, at once. After that the job may exist already and
 * only the answer tells its id, so the answer is waited for. Also ends it after `idle` seconds of silence.
 */
export class UploadWatch {
  readonly #controller = new AbortController();
  readonly #onAbort = () => this.#interrupted();
  #timer: NodeJS.Timeout | undefined;
  #sent = 0;
  #isDone = false;

  constructor(
    readonly length: number,
    idle: number,
    readonly outer: AbortSignal | undefined,
    server: string,
    /** Called when an interrupted command begins to wait for the answer. */
    readonly onLastWord: () => void,
  ) {
    if (outer?.aborted) {
      this.#interrupted();
      return;
    }
    outer?.addEventListener('abort', this.#onAbort, { once: true });
    const stalled = () =>
      this.#controller.abort(new TransportError('timeout', `${server} accepted no data for ${idle} seconds`));
    this.#timer = setTimeout(stalled, idle * 1000);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get isDone(): boolean {
    return this.#isDone;
  }

  moved(sent: number): void {
    this.#sent = sent;
    if (!this.outer?.aborted) this.#timer?.refresh();
  }

  done(): void {
    this.#isDone = true;
    clearTimeout(this.#timer);
    this.outer?.removeEventListener('abort', this.#onAbort);
  }

  #interrupted(): void {
    clearTimeout(this.#timer);
    const stop = () => this.#controller.abort(this.outer?.reason);
    if (this.#sent < this.length) {
      stop();
      return;
    }
    this.onLastWord();
    this.#timer = setTimeout(stop, lastWord);
  }
}
