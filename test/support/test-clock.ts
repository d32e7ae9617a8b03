import type { Clock } from '../../src/files/index.js';

interface Timer {
  readonly due: number;
  readonly call: () => void;
}

/** Clocks that stand still until the test moves them. */
export class TestClock implements Clock {
  #wall = Date.now();
  #passed = 0;
  #timers: Timer[] = [];

  now(): number {
    return this.#wall;
  }

  monotonic(): number {
    return this.#passed;
  }

  uptime(): number {
    return this.#passed / 1000;
  }

  after(length: number, call: () => void): () => void {
    const timer = { due: this.#passed + length, call };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((each) => each !== timer);
    };
  }

  /** Milliseconds until each timer is due. */
  get waiting(): readonly number[] {
    return this.#timers.map(({ due }) => due - this.#passed);
  }

  /** Lets this many seconds pass and calls each timer when it is due. */
  pass(seconds: number): void {
    const end = this.#passed + seconds * 1000;
    for (let next = this.#next(end); next; next = this.#next(end)) {
      this.#timers = this.#timers.filter((each) => each !== next);
      this.#moveTo(Math.max(next.due, this.#passed));
      next.call();
    }
    this.#moveTo(end);
  }

  /** Sets the wall clock forward or back by this many seconds. No time passes. */
  set(seconds: number): void {
    this.#wall += seconds * 1000;
  }

  #moveTo(time: number): void {
    this.#wall += time - this.#passed;
    this.#passed = time;
  }

  #next(end: number): Timer | undefined {
    return this.#timers.filter(({ due }) => due <= end).sort((a, b) => a.due - b.due)[0];
  }
}
