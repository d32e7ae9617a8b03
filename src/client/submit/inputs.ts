import type { Stats } from 'node:fs';
import { realpath } from 'node:fs/promises';
import path from 'node:path';
import { resultName } from '../../contract/archives.js';
import type { ListedFile } from '../../pack/listed-files.js';
import { isPlaceOfResults } from '../earlier-results.js';
import { entriesOf } from './entries.js';
import { matchesOf, replacement } from './glob.js';
import { lookAt } from './look.js';
import { Obstacles } from './obstacles.js';
import { emptyFile, listTree, nothingToSend } from './tree.js';
import { isDicomSeries, isHidden, isSliceName, isZarrStore, travels } from './volumes.js';

/** One volume to send: a file, or a directory that travels whole (a DICOM series, a Zarr store). */
export type Unit =
  | { readonly kind: 'file'; readonly path: string; readonly size: number }
  | { readonly kind: 'series' | 'store'; readonly path: string; readonly files: readonly ListedFile[] };

export interface CollectOptions {
  /** Where results go: not entered, nor a numbered directory of results beside it, unless a path names it. */
  readonly output?: string | null;
  /** Takes what cannot be sent; without it the first such thing is thrown. */
  readonly obstacles?: Obstacles;
}

/** Finds the volumes of paths, one after the other. */
class Collector {
  readonly units: Unit[] = [];

  constructor(
    private readonly output: string | null,
    private readonly obstacles: Obstacles,
  ) {}

  async addPath(given: string): Promise<void> {
    const [before, found] = [this.obstacles.count, this.units.length];
    const targets = lookAt(given) ? [given] : await matchesOf(given);
    if (targets.length === 0) {
      const why = given.includes(replacement) ? '; a file whose name is not UTF-8 must be renamed first' : '';
      this.obstacles.add(given, `does not exist${why}`);
      return;
    }
    for (const target of targets) {
      const look = lookAt(target);
      // A file may be removed between the two looks.
      if (look?.fault) this.obstacles.add(target, look.fault);
      else if (look?.stats) await this.#add(target, look.stats, []);
    }
    const isNothing = this.units.length === found && this.obstacles.count === before;
    if (isNothing) this.obstacles.add(given, nothingToSend);
  }

  async #add(target: string, stats: Stats, ancestors: readonly string[]): Promise<void> {
    if (!stats.isDirectory()) {
      if (stats.size === 0) this.obstacles.add(target, emptyFile);
      else this.units.push({ kind: 'file', path: target, size: stats.size });
      return;
    }
    const real = await realpath(target);
    if (ancestors.includes(real)) return;
    if ((await isZarrStore(target)) || (await isZarrStore(real))) return this.#addTree('store', target);
    if (await isDicomSeries(target)) return this.#addTree('series', target);
    // The result of an earlier run is not an input, unless it is named itself.
    const wanted = (name: string, child: string) =>
      !isHidden(name) && name !== resultName && !(this.output && isPlaceOfResults(child, this.output));
    for (const child of await entriesOf(target, wanted, this.obstacles)) {
      await this.#add(child.path, child.stats, [...ancestors, real]);
    }
  }

  async #addTree(kind: 'series' | 'store', target: string): Promise<void> {
    const files = await listTree(target, {
      // Inside a store every file counts, hidden or not.
      include: kind === 'store' ? () => true : travels,
      isVolume: kind === 'store' ? () => false : isSliceName,
      obstacles: this.obstacles,
    });
    this.units.push({ kind, path: target, files });
  }
}

/**
 * The volumes that paths name (interface.md, Clients): files as they are, globs sorted by name, directories walked in the
 * order of names without hidden files, links followed. A DICOM series and a `.zarr` store count as one volume.
 * @throws UsageError for what cannot be sent, unless the caller takes the obstacles
 */
export async function collectUnits(paths: readonly string[], options: CollectOptions = {}): Promise<Unit[]> {
  const { output, obstacles = new Obstacles() } = options;
  const collector = new Collector(output ? path.resolve(output) : null, obstacles);
  for (const given of paths) await collector.addPath(given);
  if (!options.obstacles) obstacles.check();
  return collector.units;
}
