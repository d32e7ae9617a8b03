/** Wakes one that waits, also if it is called a moment before the wait begins. */
export class Wake {
  #isAwake = false;
  #resolve: (() => void) | null = null;

  call(): void {
    this.#isAwake = true;
    this.#resolve?.();
  }

  /** Resolves at the next call, at once if there was one since the last wait, or after so many milliseconds. */
  async next(patience?: number): Promise<void> {
    if (!this.#isAwake) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#resolve = resolve;
        if (patience !== undefined) timer = setTimeout(resolve, patience).unref();
      });
      clearTimeout(timer);
    }
    this.#resolve = null;
    this.#isAwake = false;
  }
}
