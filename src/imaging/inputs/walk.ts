import { realpath } from 'node:fs/promises';
import path from 'node:path';
import { isResultDirectory } from '../../client/earlier-results.js';
import { bidsDescription, resultName } from '../../contract/index.js';
import { entriesOf, lookAt, type Obstacles } from './entries.js';
import { hasZarrName, isBesideBidsData, isHidden, isSidecar } from './formats.js';
import { foundOnTheWay } from './glob.js';
import { leadsElsewhere } from './leaving.js';
import type { FoundFile } from './recognise.js';
import type { Selector } from './selection.js';
import { hasMetadata } from './zarr.js';

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

/** Walks directories for what may be an input: everything but what is hidden, left out, not chosen, or an earlier result. */
export class Walk {
  readonly #output: string | null;

  /** @param skipped gets what is left out */
  constructor(
    private readonly options: WalkOptions,
    private readonly skipped: string[],
  ) {
    this.#output = options.output ? path.resolve(options.output) : null;
  }

  /**
   * The files and stores of a directory and below, links followed.
   * @param root the real path of the directory that was named
   */
  async below(directory: string, root: string): Promise<Found[]> {
    const found: Found[] = [];
    await this.#addBelow(directory, root, [], found);
    return found;
  }

  /** Whether the flags that choose among files take this one. Of a directory, its files are looked at. */
  isChosen(target: string): boolean {
    const { selector } = this.options;
    return !selector || lookAt(target)?.stats?.isDirectory() === true || selector.keeps(target);
  }

  isLeftOut(target: string): boolean {
    return !this.options.allFiles && isSidecar(target) && !lookAt(target)?.stats?.isDirectory();
  }

  async #addBelow(
    directory: string,
    root: string,
    ancestors: readonly string[],
    found: Found[],
  ): Promise<void> {
    const real = await realpath(directory);
    // A link to a directory above it: everything there has been found already.
    if (ancestors.includes(real)) return;
    const isOut = leadsElsewhere(directory, root);
    if (hasZarrName(directory) || hasMetadata(real)) {
      const isChosen = this.options.selector?.keeps(directory) ?? true;
      if (isChosen) found.push({ path: directory, size: 0, isStore: true, isLink: isOut });
      return;
    }
    const entries = await entriesOf(
      directory,
      (name, at) => this.#isWanted(name, at),
      this.options.obstacles,
    );
    for (const { path: at, isDirectory, isLink, size } of entries) {
      if (!isDirectory && !this.isChosen(at)) continue;
      if (!isDirectory) found.push({ path: at, size, isStore: false, isLink: isLink || isOut });
      else if (this.#isBesideData(at)) this.skipped.push(at);
      else await this.#addBelow(at, root, [...ancestors, real], found);
    }
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
