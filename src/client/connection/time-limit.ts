/**
 * Ends what is under way after some seconds, or as soon as another signal does. Node's own `AbortSignal.any` can lose its
 * time limit: the garbage collector takes it away while a server floods the client with data.
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
