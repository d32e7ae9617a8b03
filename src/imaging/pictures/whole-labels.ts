/** How far the value of a label may be from a whole number: headers with a slope make 0.996 of 1. */
const tolerance = 0.05;

/** The labels of a segmentation, whose values need not be whole numbers, but are the same wherever a label is. */
export class WholeLabels {
  readonly #stored = new Map<number, number>();
  #isScaled = false;

  /** The label of a value; null for a value that is none. */
  of(value: number): number | null {
    const whole = Math.round(value);
    const known = this.#stored.get(whole);
    if (known === value) return whole;
    // Two values of one label are a range of values.
    if (known !== undefined || !(Math.abs(value - whole) <= tolerance)) return null;
    this.#stored.set(whole, value);
    if (value !== whole) this.#isScaled = true;
    return whole;
  }

  /** Whether values are whole numbers only when they are rounded. */
  get isScaled(): boolean {
    return this.#isScaled;
  }

  /** Whether there is a label, and not only a background. */
  get hasAny(): boolean {
    return [...this.#stored.keys()].some((label) => label !== 0);
  }
}
