/** Milliseconds by which the two clocks may differ from each other without one having been set. */
const tolerance = 2000;

/**
 * A time from now on that is counted by the machine's own clock: setting the time of day neither brings it nearer nor
 * puts it off.
 */
export class Deadline {
  readonly #monotonic = performance.now();
  readonly #wall = Date.now();

  /** @param length milliseconds */
  constructor(private readonly length: number) {}

  /** Milliseconds until then; negative once it has passed. */
  get left(): number {
    return this.length - (performance.now() - this.#monotonic);
  }

  /** The same as a time of day, by the clock as it is set now. */
  get date(): Date {
    const moved = Date.now() - this.#wall - (performance.now() - this.#monotonic);
    return new Date(this.#wall + this.length + (Math.abs(moved) > tolerance ? moved : 0));
  }
}
