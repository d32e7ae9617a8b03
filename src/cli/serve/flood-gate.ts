/** Lets through a number of lines in each interval, and counts the others. */
export class FloodGate {
  #admitted = 0;
  #refused = 0;
  #timer: NodeJS.Timeout | null = null;

  /**
   * @param bounds `interval` in milliseconds
   * @param sayRefused called at the end of an interval in which lines were not let through
   */
  constructor(
    private readonly bounds: { readonly most: number; readonly interval: number },
    private readonly sayRefused: (count: number) => void,
  ) {}

  /** Whether the next line is let through. */
  admits(): boolean {
    this.#timer ??= setTimeout(() => this.#end(), this.bounds.interval).unref();
    this.#admitted += 1;
    if (this.#admitted <= this.bounds.most) return true;
    this.#refused += 1;
    return false;
  }

  #end(): void {
    const refused = this.#refused;
    this.#admitted = 0;
    this.#refused = 0;
    this.#timer = null;
    if (refused > 0) this.sayRefused(refused);
  }
}
