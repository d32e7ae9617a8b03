import path from 'node:path';
import { readSmallFile, sharedMode, writeJsonFile } from '../../files/index.js';

/** The directory, beside those of the cases, with what is only of use to the next command. */
export const ownDirectory = '.remote-app';

/** What the last look at a case found, by the times and identities of its files: it saves reading them again. */
export interface LastLook {
  /** Of the inputs: the stamp of their files, and the hash of their contents. */
  readonly stamp: string | null;
  readonly digest: string | null;
  /** The stamp of the outputs when their hashes were those of the record. */
  readonly outputs: string | null;
  /** A hash of the paths of its files. */
  readonly place: string | null;
}

const neverLooked: LastLook = { stamp: null, digest: null, outputs: null, place: null };

/** Largest file of what was seen, in bytes: some 100,000 cases. */
const maxSeen = 48 << 20;

const textOrNull = (value: unknown): string | null => (typeof value === 'string' ? value : null);

const fileIn = (output: string): string => path.join(output, ownDirectory, 'seen.json');

/** What was seen of the cases whose results go to a directory, as far as it has the form that is expected: it can always be found out again. */
export class LastLooks {
  readonly #seen = new Map<string, LastLook>();
  #isChanged = false;

  constructor(private readonly output: string) {
    try {
      const document = JSON.parse(readSmallFile(fileIn(output), maxSeen));
      for (const [name, [stamp, digest, outputs, place]] of Object.entries<unknown[]>(document)) {
        const look = { stamp, digest, outputs, place };
        const read = Object.entries(look).map(([key, value]) => [key, textOrNull(value)]);
        this.#seen.set(name, Object.fromEntries(read));
      }
    } catch {
      // A new directory, or a damaged file: everything is read.
    }
  }

  get(name: string): LastLook {
    return this.#seen.get(name) ?? neverLooked;
  }

  get entries(): readonly (readonly [string, LastLook])[] {
    return [...this.#seen];
  }

  note(name: string, seen: Partial<LastLook>): void {
    this.#seen.set(name, { ...this.get(name), ...seen });
    this.#isChanged = true;
  }

  /** Writes down what was seen of the cases of these names; it is forgotten of all others. */
  save(isKept: (name: string) => boolean): void {
    if (!this.#isChanged) return;
    const rows = this.entries
      .filter(([name]) => isKept(name))
      .map(([name, { stamp, digest, outputs, place }]) => [name, [stamp, digest, outputs, place]]);
    // Nothing is lost if a power cut damages it.
    writeJsonFile(fileIn(this.output), Object.fromEntries(rows), { isKept: false, mode: sharedMode });
    this.#isChanged = false;
  }
}
