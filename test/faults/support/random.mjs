/**
 * The one source of chance of a run: every random choice comes from the seed, so that `--seed` makes the same
 * choices again. What the machine's own timing adds cannot be replayed; the choices can.
 */
export class Random {
  #state;

  /** @param {string} seed any text */
  constructor(seed) {
    this.seed = seed;
    // FNV-1a: neighbouring seeds must not give neighbouring sequences.
    let hash = 0x811c9dc5;
    for (const character of seed) hash = Math.imul(hash ^ character.codePointAt(0), 0x01000193);
    this.#state = hash >>> 0;
  }

  /** A separate generator for one part of the run, so that parts do not influence each other's choices. */
  fork(name) {
    return new Random(`${this.seed}/${name}`);
  }

  /** From 0 up to, not including, 1 (mulberry32). */
  next() {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number from `low` to `high`, both included. */
  integer(low, high) {
    return low + Math.floor(this.next() * (high - low + 1));
  }

  chance(probability) {
    return this.next() < probability;
  }

  pick(list) {
    return list[this.integer(0, list.length - 1)];
  }

  shuffle(list) {
    const left = [...list];
    return list.map(() => left.splice(this.integer(0, left.length - 1), 1)[0]);
  }

  /** Random bytes, which do not compress. */
  bytes(length) {
    const bytes = Buffer.allocUnsafe(length);
    for (let at = 0; at < length; at += 1) bytes[at] = this.integer(0, 255);
    return bytes;
  }

  word(length = 8) {
    return Array.from({ length }, () => this.pick('abcdefghijklmnopqrstuvwxyz0123456789')).join('');
  }
}
