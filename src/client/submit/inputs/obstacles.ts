import { quotePath } from '../../../contract/quote.js';
import { UsageError } from '../../errors.js';

/**
 * What keeps files from being sent. Nothing of it is left out silently, since an app must compute on the whole study. A
 * person is told after all of it was found: the first by name, and how many more there are.
 */
export class Obstacles {
  #first: string | null = null;
  #count = 0;

  /** How many were found. */
  get count(): number {
    return this.#count;
  }

  /** @param why words that follow the path in a sentence */
  add(target: string, why: string): void {
    this.#note(`${quotePath(target)} ${why}`);
  }

  /** Adds a path that names nothing. @param why more words, for the end of the sentence */
  addMissing(target: string, why = ''): void {
    this.#note(`No such file or directory: ${quotePath(target)}${why}`);
  }

  #note(sentence: string): void {
    this.#first ??= sentence;
    this.#count += 1;
  }

  /** @throws UsageError if anything was found */
  check(): void {
    if (this.#first === null) return;
    const more = this.#count - 1;
    throw new UsageError(more === 0 ? this.#first : `${this.#first}; ${more} more cannot be sent either`);
  }
}
