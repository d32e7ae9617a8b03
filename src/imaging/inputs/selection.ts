import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import { labelOf } from '../../client/found-files.js';
import type { Selection } from '../../client/submission.js';
import { quoteName, someOf } from '../../contract/index.js';
import { withSlashes } from '../../files/index.js';
import { withoutVolumeEnding } from './formats.js';
import { matches } from './series.js';

/** The part of a name after the last `_`, without the extension. */
function suffixOf(file: string): string | null {
  const stem = withoutVolumeEnding(path.basename(file));
  const at = stem.lastIndexOf('_');
  return at < 0 ? null : stem.slice(at + 1);
}

/** One way to choose among files: by a word that each of them has. */
class Choice {
  readonly #seen = new Set<string>();

  constructor(
    private readonly flag: string,
    private readonly words: readonly string[],
    private readonly wordOf: (file: string) => string | null,
  ) {}

  keeps(file: string): boolean {
    if (this.words.length === 0) return true;
    const word = this.wordOf(file);
    if (word !== null) this.#seen.add(word);
    return word !== null && this.words.includes(word);
  }

  /** @throws UsageError for a word that no file has */
  check(): void {
    const unused = this.words.find((each) => !this.#seen.has(each));
    if (unused === undefined) return;
    const known = [...this.#seen].sort();
    const there = known.length === 0 ? 'no file has any' : `there are ${someOf(known)}`;
    throw new UsageError(`--${this.flag} ${quoteName(unused)} chooses no file; ${there}`);
  }
}

/** Selects among the files of directories and patterns, as BIDS apps do. */
export class Selector {
  readonly #choices: readonly Choice[];
  readonly #excluded: readonly string[];

  constructor({ participants = [], sessions = [], suffixes = [], exclude = [] }: Selection = {}) {
    const labels = (words: readonly string[], entity: string) =>
      words.map((word) => (word.startsWith(`${entity}-`) ? word.slice(entity.length + 1) : word));
    this.#choices = [
      new Choice('participant-label', labels(participants, 'sub'), (file) => labelOf(file, 'sub')),
      new Choice('session-label', labels(sessions, 'ses'), (file) => labelOf(file, 'ses')),
      new Choice('suffix', suffixes, suffixOf),
    ];
    this.#excluded = exclude;
  }

  keeps(file: string): boolean {
    const whole = withSlashes(file);
    const names = [whole, ...whole.split('/')];
    const isExcluded = this.#excluded.some((pattern) =>
      names.some((each) => matches(withSlashes(pattern), each)),
    );
    return !isExcluded && this.#choices.every((choice) => choice.keeps(file));
  }

  /** @throws UsageError for a word that selects nothing and may be mistyped */
  check(): void {
    for (const choice of this.#choices) choice.check();
  }
}
