import { mkdirSync } from 'node:fs';

/** What a family of faults uses, and where it records its findings. */
export class Context {
  /** Kinds of fault, in the order of their first occurrence. */
  counts = new Map();
  violations = [];
  notes = [];
  #serial = 0;

  /**
   * @param {object} given name, random, rounds, scratch (a directory of the family's own), figures (shared by all),
   * cluster (on which jobs run; null for this machine)
   */
  constructor({ name, random, rounds, scratch, figures, cluster, say }) {
    Object.assign(this, { name, random, rounds, scratch, figures, cluster, say });
    mkdirSync(scratch, { recursive: true, mode: 0o700 });
  }

  /** A number that is unique in this family, for names. */
  serial() {
    this.#serial += 1;
    return this.#serial;
  }

  /** Counts faults that were made. */
  count(kind, more = 1) {
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + more);
  }

  /** Records a broken promise. */
  violation(text) {
    this.violations.push(text);
    this.say(`VIOLATION [${this.name}, --seed ${this.random.seed.split('/')[0]}] ${text}`);
  }

  /** Adds a remark for the reader of the table, usually about a part that was skipped. */
  note(text) {
    this.notes.push(text);
    this.say(`[${this.name}] ${text}`);
  }

  /** Records a figure. The highest value counts. */
  highest(name, value, unit) {
    const { value: before = 0 } = this.figures.get(name) ?? {};
    this.figures.set(name, { value: Math.max(before, value), unit });
  }

  /** Runs one case; an error that it throws counts as a violation of the promise that it checks. */
  async attempt(what, run) {
    try {
      return await run();
    } catch (cause) {
      this.violation(`${what}: ${cause instanceof Error ? cause.message : cause}`);
      return undefined;
    }
  }

  check(isTrue, text) {
    if (!isTrue) this.violation(text);
  }
}

/** How often a case is run: `inTen` times in 10 rounds, and at least once in any run. */
export const times = (rounds, inTen) => Math.max(1, Math.round((inTen * rounds) / 10));
