/** Most notes that are listed one by one. */
const maxNotes = 20;

/** Sentences on what was renamed, cut or left out while an archive was packed or extracted. */
export class Notes {
  readonly #told: string[] = [];
  #more = 0;

  add(sentence: string): void {
    if (this.#told.length < maxNotes) this.#told.push(sentence);
    else this.#more += 1;
  }

  list(): string[] {
    return this.#more === 0 ? [...this.#told] : [...this.#told, `and ${this.#more} more`];
  }
}
