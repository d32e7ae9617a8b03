/** How far a label value may be from a whole number: a slope in the header may turn 1 into 0.996. */
const tolerance = 0.05;

/**
 * Maps the values of a segmentation to labels. The values need not be whole numbers, but all voxels of a label must have the same
 * value.
 */
export class WholeLabels {
  readonly #stored = new Map<number, number>();
  #isScaled = false;

  /** The label of a value; null if the value is not a label. */
  of(value: number): number | null {
    const whole = Math.round(value);
    const known = this.#stored.get(whole);
    if (known === value) return whole;
    // Two different values for one label mean that the values are continuous.
    if (known !== undefined || !(Math.abs(value - whole) <= tolerance)) return null;
    this.#stored.set(whole, value);
    if (value !== whole) this.#isScaled = true;
    return whole;
  }

  /** Whether values become whole numbers only by rounding. */
  get isScaled(): boolean {
    return this.#isScaled;
  }

  /** Whether there is any label besides the background. */
  get hasAny(): boolean {
    return [...this.#stored.keys()].some((label) => label !== 0);
  }
}
