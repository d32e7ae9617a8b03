import { mkdirSync } from 'node:fs';

/** What one family works with, and where it leaves what it found. */
export class Context {
  /** Kinds of fault, in the order in which they first came. */
  counts = new Map();
  violations = [];
  notes = [];
  #serial = 0;

  /**
   * @param {object} given name, random, rounds, scratch (a directory of the family's own), figures (shared by all)
   */
  constructor({ name, random, rounds, scratch, figures, say }) {
    Object.assign(this, { name, random, rounds, scratch, figures, say });
    mkdirSync(scratch, { recursive: true, mode: 0o700 });
  }

  /** A number that this family has not had yet, for names. */
  serial() {
    this.#serial += 1;
    return this.#serial;
  }

  /** Counts faults that were made. */
  count(kind, more = 1) {
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + more);
  }

  /** Something that must never be. */
  violation(text) {
    this.violations.push(text);
    this.say(`VIOLATION [${this.name}, --seed ${this.random.seed.split('/')[0]}] ${text}`);
  }

  /** What a reader of the table has to know: a part that was left out, above all. */
  note(text) {
    this.notes.push(text);
    this.say(`[${this.name}] ${text}`);
  }

  /** A figure of which the highest counts. */
  highest(name, value, unit) {
    const { value: before = 0 } = this.figures.get(name) ?? {};
    this.figures.set(name, { value: Math.max(before, value), unit });
  }

  /** Runs one case; whatever it throws is a violation of the promise that the case is about. */
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

/** Whether a case that comes `times` times in a run of 10 rounds has its turn in this many rounds: at least once. */
export const times = (rounds, inTen) => Math.max(1, Math.round((inTen * rounds) / 10));
