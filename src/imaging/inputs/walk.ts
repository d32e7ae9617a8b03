import path from 'node:path';
import { isResultDirectory } from '../../client/output-names.js';
import { bidsDescription, resultName } from '../../contract/index.js';
import { byName } from '../../files/index.js';
import { lookAt, type Obstacles, walkInputs } from './entries.js';
import { isBesideBidsData, isHidden, isSidecar } from './formats.js';
import { foundOnTheWay } from './glob.js';
import type { FoundFile } from './recognise.js';
import type { Selector } from './selection.js';
import { leadsElsewhere } from './sending-rules.js';
import { isStore } from './zarr.js';

/** A file, or a Zarr store, inside a directory. */
export interface Found extends FoundFile {
  readonly isStore: boolean;
  /** Whether it is a link, or was reached by a link out of the named directory. */
  readonly isLink: boolean;
}

export interface WalkOptions {
  /** Where results go. This directory and numbered ones beside it are not searched, unless a path names them. */
  readonly output?: string | null;
  /** Whether to send non-volume files too. */
  readonly allFiles?: boolean;
  /** Selects among the files found in directories and by patterns. */
  readonly selector?: Selector;
  readonly obstacles: Obstacles;
}

/** Compares paths in the order in which directories are walked. */
export function byPath(a: string, b: string): number {
  const [partsOfA, partsOfB] = [a.split(path.sep), b.split(path.sep)];
  const at = partsOfA.findIndex((part, index) => part !== partsOfB[index]);
  return byName(partsOfA[at] ?? '', partsOfB[at] ?? '');
}

/** Finds possible inputs in directories: everything that is not hidden, left out, deselected, or an earlier result. */
export class Walk {
  readonly #output: string | null;

  /**
   * @param skipped collects what is left out
   * @param repeated collects directories that were already visited by another path
   */
  constructor(
    private readonly options: WalkOptions,
    private readonly skipped: string[],
    private readonly repeated: string[],
  ) {
    this.#output = options.output ? path.resolve(options.output) : null;
  }

  /**
   * The files and stores in a directory and its subdirectories, following links, in the order of their paths.
   * @param root the real path of the named directory
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

  /** Whether the selection flags accept a file. A directory is always accepted; its files are tested instead. */
  isChosen(target: string): boolean {
    const { selector } = this.options;
    return !selector || lookAt(target)?.stats?.isDirectory() === true || selector.keeps(target);
  }

  isLeftOut(target: string): boolean {
    return !this.options.allFiles && isSidecar(target) && !lookAt(target)?.stats?.isDirectory();
  }

  /** Whether a directory is skipped. A skipped directory is recorded. */
  #isAside(directory: string): boolean {
    const isAside = this.#isBesideData(directory);
    if (isAside) this.skipped.push(directory);
    return isAside;
  }

  /** Whether a directory of a BIDS data set has no raw data. It is not searched unless a path names it. */
  #isBesideData(target: string): boolean {
    if (this.options.allFiles || !isBesideBidsData(path.basename(target))) return false;
    return lookAt(path.join(target, '..', bidsDescription)) !== null;
  }

  /** Whether a match lies in a directory that would not be walked and that the pattern does not name. */
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
