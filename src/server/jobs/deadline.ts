/** Milliseconds by which the two clocks may differ although nobody has set one. */
const tolerance = 2000;

/**
 * A point in time, counted from now on by the machine's monotonic clock: setting the wall clock does not move it.
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

  /** The same as a date, by the wall clock as it is set now. */
  get date(): Date {
    const moved = Date.now() - this.#wall - (performance.now() - this.#monotonic);
    return new Date(this.#wall + this.length + (Math.abs(moved) > tolerance ? moved : 0));
  }
}
