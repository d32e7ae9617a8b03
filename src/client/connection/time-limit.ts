/**
 * A signal that aborts after some seconds, or when another signal does. Used instead of `AbortSignal.any`, whose time limit
 * can be garbage-collected while a server floods the client with data.
 */
export class TimeLimit implements Disposable {
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;

  constructor(
    seconds: number,
    private readonly other: AbortSignal | undefined,
  ) {
    this.#timer = setTimeout(() => {
      this.#controller.abort(new DOMException('The time is up', 'TimeoutError'));
    }, seconds * 1000).unref();
    other?.addEventListener('abort', this.#onOther);
    if (other?.aborted) this.#onOther();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  readonly #onOther = (): void => this.#controller.abort(this.other?.reason);

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.other?.removeEventListener('abort', this.#onOther);
  }
}
