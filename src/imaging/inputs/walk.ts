import path from 'node:path';
import { isResultDirectory } from '../../client/output-names.js';
import { bidsDescription, resultName } from '../../contract/index.js';
import { byName } from '../../files/index.js';
import { lookAt, type Obstacles, walkInputs } from './entries.js';
import { isBesideBidsData, isHidden, isSidecar } from './formats.js';
import { foundOnTheWay } from './glob.js';
import { leadsElsewhere } from './leaving.js';
import type { FoundFile } from './recognise.js';
import type { Selector } from './selection.js';
import { isStore } from './zarr.js';

/** A file, or a Zarr store, inside a directory. */
export interface Found extends FoundFile {
  readonly isStore: boolean;
  /** Whether it is a link, or lies behind one that leads out of what was named. */
  readonly isLink: boolean;
}

export interface WalkOptions {
  /** Where results go. Neither this directory nor a numbered one beside it is searched, unless a path names it. */
  readonly output?: string | null;
  /** Whether to send files that are not volumes too. */
  readonly allFiles?: boolean;
  /** Chooses among what is found below directories and by patterns. */
  readonly selector?: Selector;
  readonly obstacles: Obstacles;
}

/** The order in which directories are walked. */
export function byPath(a: string, b: string): number {
  const [partsOfA, partsOfB] = [a.split(path.sep), b.split(path.sep)];
  const at = partsOfA.findIndex((part, index) => part !== partsOfB[index]);
  return byName(partsOfA[at] ?? '', partsOfB[at] ?? '');
}

/** Walks directories for what may be an input: everything but what is hidden, left out, not chosen, or an earlier result. */
export class Walk {
  readonly #output: string | null;

  /**
   * @param skipped gets what is left out
   * @param repeated gets directories that were visited before by another path
   */
  constructor(
    private readonly options: WalkOptions,
    private readonly skipped: string[],
    private readonly repeated: string[],
  ) {
    this.#output = options.output ? path.resolve(options.output) : null;
  }

  /**
   * The files and stores of a directory and below, links followed, in the order of their paths.
   * @param root the real path of the directory that was named
   */
  async below(directory: string, root: string): Promise<Found[]> {
    const found: Found[] = [];
    const known = new Map<string, boolean>();
    const isKnownStore = (at: string): boolean => {
      const is = known.get(at) ?? isStore(at);
      known.set(at, is);
      return is;
    };
    const visited = walkInputs(directory, {
      obstacles: this.options.obstacles,
      wanted: (name, at) => !isKnownStore(path.dirname(at)) && this.#isWanted(name, at),
      enters: ({ path: at }) => !this.#isAside(at),
      onRepeated: (at) => {
        this.repeated.push(at);
      },
    });
    for await (const { path: at, entries } of visited) {
      const isOut = leadsElsewhere(at, root);
      if (isKnownStore(at)) {
        const isChosen = this.options.selector?.keeps(at) ?? true;
        if (isChosen) found.push({ path: at, size: 0, isStore: true, isLink: isOut });
        continue;
      }
      for (const entry of entries) {
        if (entry.isDirectory || !this.isChosen(entry.path)) continue;
        found.push({ path: entry.path, size: entry.size, isStore: false, isLink: entry.isLink || isOut });
      }
    }
    return found.sort((a, b) => byPath(a.path, b.path));
  }

  /** Whether the flags that choose among files take this one. Of a directory, its files are looked at. */
  isChosen(target: string): boolean {
    const { selector } = this.options;
    return !selector || lookAt(target)?.stats?.isDirectory() === true || selector.keeps(target);
  }

  isLeftOut(target: string): boolean {
    return !this.options.allFiles && isSidecar(target) && !lookAt(target)?.stats?.isDirectory();
  }

  /** Whether a directory is passed over, which is then noted. */
  #isAside(directory: string): boolean {
    const isAside = this.#isBesideData(directory);
    if (isAside) this.skipped.push(directory);
    return isAside;
  }

  /** Whether a directory of a data set of BIDS has no raw data. It is no input unless a path names it. */
  #isBesideData(target: string): boolean {
    if (this.options.allFiles || !isBesideBidsData(path.basename(target))) return false;
    return lookAt(path.join(target, '..', bidsDescription)) !== null;
  }

  /** Whether what a pattern matches lies in a directory that is not walked either, and that the pattern does not name. */
  isFoundAside(pattern: string, match: string): boolean {
    const passed = foundOnTheWay(pattern, match);
    const beside = passed.find((each) => this.#isBesideData(each));
    if (beside !== undefined && !this.skipped.includes(beside)) this.skipped.push(beside);
    return beside !== undefined || passed.some((each) => this.#isResult(each));
  }

  /** Whether a directory contains the result of an earlier run. That is not an input unless a path names it. */
  #isResult(directory: string): boolean {
    return this.#output !== null && isResultDirectory(directory, this.#output);
  }

  #isWanted(name: string, child: string): boolean {
    if (isHidden(name)) return false;
    if (name === resultName || this.#isResult(child)) return false;
    if (!this.isLeftOut(child)) return true;
    this.skipped.push(child);
    return false;
  }
}
