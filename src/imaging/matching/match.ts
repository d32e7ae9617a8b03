import path from 'node:path';
import { foldedName } from '../../files/index.js';
import { commonLength, withoutSuffix, withoutVolumeEnding } from '../inputs/index.js';

/** The names used to match a result with its scan. */
export interface Named {
  /** Its name without the extension, in lower case. */
  readonly stem: string;
  /** Names of its directories, from the root, in lower case. */
  readonly folders: readonly string[];
}

/** @param name the name of the file or directory, if it differs from the one in its path */
export const namedBy = (
  target: string,
  name = withoutVolumeEnding(path.basename(path.resolve(target))),
): Named => ({
  stem: foldedName(name),
  folders: path.dirname(path.resolve(target)).split(path.sep).map(foldedName),
});

/** Whether a text begins with another one that ends at a word boundary: `case1_seg` after `case1`, but not `case12`. */
const extendsName = (text: string, start: string): boolean =>
  text.startsWith(start) && (text.length === start.length || !/[\p{L}\p{N}]/u.test(text[start.length] ?? ''));

/** How certain a match is, by the way in which the names match. */
const certainty = { same: 4000, extends: 3000, contains: 2000, suffix: 1000 };

/** How well the names of a result and a scan match, regardless of their folders: 0 for no match. */
export function rankOf(result: Named, scan: Named, only: 'all' | 'extends' = 'all'): number {
  const { stem } = scan;
  if (result.stem === stem) return certainty.same;
  if (extendsName(result.stem, stem)) return certainty.extends + stem.length;
  if (only === 'extends') return 0;
  if (result.stem.split(/[^\p{L}\p{N}]+/u).includes(stem)) return certainty.contains;
  const short = withoutSuffix(stem);
  return short !== stem && extendsName(result.stem, short) ? certainty.suffix + short.length : 0;
}

/** The elements with the largest number; none if no number is above 0. */
function bestOf<T>(elements: readonly T[], numberOf: (element: T) => number): T[] {
  const numbers = elements.map(numberOf);
  const best = Math.max(0, ...numbers);
  return best === 0 ? [] : elements.filter((_, at) => numbers[at] === best);
}

/** An entity of BIDS: `sub-01`. */
const entity = /^[a-z]+-[\p{L}\p{N}]+$/u;

/** The words of a name. A BIDS entity is one word. */
const wordsOf = (name: string): string[] =>
  name.split(/[_.\s]+/).flatMap((part) => (entity.test(part) ? [part] : part.split(/[^\p{L}\p{N}]+/u)));

const allWordsOf = ({ stem, folders }: Named): Set<string> =>
  new Set([stem, ...folders, ...wordsOf(stem), ...folders.flatMap(wordsOf)].filter(Boolean));

/** The words that only some of the scans have. Words common to all, such as `anat`, distinguish nothing. */
function tellingWords(words: readonly ReadonlySet<string>[]): Set<string> {
  const counts = new Map<string, number>();
  for (const each of words) for (const word of each) counts.set(word, (counts.get(word) ?? 0) + 1);
  return new Set([...counts].flatMap(([word, count]) => (count < words.length ? [word] : [])));
}

/** The scans that a result may belong to, by name. */
export interface Fit<T> {
  /** Those that fit equally well; empty if none does. */
  readonly scans: readonly T[];
  /** Whether names or folders point to these scans. If not, they are merely not ruled out. */
  readonly isSaid: boolean;
}

/**
 * Finds the scans that results may belong to, by the parts of names and folders in which the scans differ: `sub-01` of
 * `sub-01/mri/t1`, but not `mri`. Folders take precedence over names. Grids decide among several matches: see `scanOf`.
 */
export class ScanMatcher<T extends Named> {
  readonly #words: ReadonlyMap<T, ReadonlySet<string>>;
  readonly #telling: ReadonlySet<string>;

  constructor(readonly scans: readonly T[]) {
    this.#words = new Map(scans.map((scan) => [scan, allWordsOf(scan)]));
    this.#telling = tellingWords([...this.#words.values()]);
  }

  /** @param among some of the scans; all by default */
  fit(result: Named, among: readonly T[] = this.scans): Fit<T> {
    let left = [...among];
    let isSaid = false;
    const narrow = (words: readonly string[]): boolean => {
      const telling = tellingWords(left.map((scan) => this.#words.get(scan) ?? new Set<string>()));
      const wanted = words.filter((word) => telling.has(word));
      if (wanted.length === 0) return true;
      left = left.filter((scan) => wanted.every((word) => this.#words.get(scan)?.has(word)));
      isSaid = true;
      return left.length > 0;
    };
    const folders = result.folders.filter((each) => this.#telling.has(each));
    if (!narrow(folders)) return { scans: [], isSaid };
    if (folders.length === 0 && !narrow(result.folders.flatMap(wordsOf))) return { scans: [], isSaid };
    const named = bestOf(left, (scan) => rankOf(result, scan));
    if (named.length > 0) [left, isSaid] = [named, true];
    // The folder of this subject may contain a mask of another one.
    const others = wordsOf(result.stem).filter((word) => entity.test(word) && this.#telling.has(word));
    const isOther = (scan: T) => others.some((word) => !this.#words.get(scan)?.has(word));
    const own = left.filter((scan) => !isOther(scan));
    if (own.length < left.length) [left, isSaid] = [own, true];
    if (left.length > 1 && !narrow(wordsOf(result.stem))) return { scans: [], isSaid };
    return { scans: left, isSaid: isSaid || this.#isOneFolder(result, left) };
  }

  /** Whether the scans are those of one examination: they share a folder, and a folder of the result has the same name. */
  #isOneFolder(result: Named, scans: readonly T[]): boolean {
    const [first] = scans;
    if (!first || !areTogether(scans)) return false;
    const shared = commonLength([result.folders, first.folders]);
    const own = new Set(result.folders.slice(shared));
    return first.folders.slice(shared).some((each) => own.has(each));
  }
}

/** Whether volumes lie in one directory. */
export const areTogether = (volumes: readonly Named[]): boolean =>
  volumes.every(({ folders }) => folders.join('/') === volumes[0]?.folders.join('/'));

/** The scan of a result. */
export interface ScanOf<T> {
  /** Null if there is none, and if several fit equally well. */
  readonly scan: T | null;
  /** The other scans that fit equally well. */
  readonly others: readonly T[];
}

/**
 * Chooses the scan of a result among those that match by name: the one on the same grid. If several are on that grid and show one
 * place, such as the sequences of an examination, any of them shows where the result lies. Otherwise they may belong to several
 * people, and none is chosen.
 */
export function scanOf<T>(
  fitting: readonly T[],
  isOnGrid: (scan: T) => boolean,
  areOfOnePlace: (scans: readonly T[]) => boolean,
): ScanOf<T> {
  const onGrid = fitting.filter(isOnGrid);
  const left = onGrid.length > 0 ? onGrid : fitting;
  const [first, ...others] = left;
  if (!first || others.length === 0) return { scan: first ?? null, others: [] };
  return onGrid.length > 0 && areOfOnePlace(left) ? { scan: first, others } : { scan: null, others: left };
}
