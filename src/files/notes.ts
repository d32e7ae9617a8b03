/** Most notes that a person is told one by one. */
const longest = 20;

/** What is to be told of an archive, one sentence each: what was renamed, cut or left out. */
export class Notes {
  readonly #told: string[] = [];
  #more = 0;

  add(sentence: string): void {
    if (this.#told.length < longest) this.#told.push(sentence);
    else this.#more += 1;
  }

  list(): string[] {
    return this.#more === 0 ? [...this.#told] : [...this.#told, `and ${this.#more} more`];
  }
}
