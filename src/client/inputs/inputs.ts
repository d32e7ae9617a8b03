import type { Stats } from 'node:fs';
import { realpath } from 'node:fs/promises';
import path from 'node:path';
import type { ListedFile } from '../../archive/index.js';
import { resultName, volumeSuffix } from '../../contract/index.js';
import { faultWithoutPath, isSystemError } from '../../files/index.js';
import { isPlaceOfResults } from '../earlier-results.js';
import {
  type Entry,
  emptyFile,
  entriesOf,
  listTree,
  lookAt,
  nothingToSend,
  type Obstacles,
} from './entries.js';
import { matchesOf, replacement } from './glob.js';
import {
  holdsOtherVolumes,
  holdsSlices,
  isHidden,
  isSidecar,
  isSlice,
  isVolumeName,
  isZarrStore,
  travels,
} from './volumes.js';

/** The data set of a fine-tuning: the files of a directory, or a zip archive as it is. */
export type DataSet =
  | { readonly path: string; readonly files: readonly ListedFile[] }
  | { readonly path: string; readonly files: null; readonly size: number };

/** Why a file cannot be sent as an archive that the server extracts; null if it can. */
export async function archiveFault(archive: string): Promise<string | null> {
  // Imported lazily to keep start-up fast: most commands send other files.
  const { ArchiveError, checkArchive } = await import('../../archive/index.js');
  try {
    return (await checkArchive(archive)) ? null : 'is a zip archive without a file in it';
  } catch (cause) {
    if (cause instanceof ArchiveError) return `cannot be read as a zip archive: ${cause.message}`;
    if (isSystemError(cause)) return `cannot be read: ${faultWithoutPath(cause)}`;
    throw cause;
  }
}

/** The same of a data set that is no directory. */
const fileFault = async (archive: string): Promise<string | null> =>
  /\.zip$/i.test(archive) ? archiveFault(archive) : 'is neither a directory nor a zip archive';

/**
 * The data set that a path names, links followed. All files of a directory belong to it, except hidden ones outside a
 * `.zarr` store. Null if it cannot be sent, which the obstacles say.
 */
export async function findDataSet(path: string, obstacles: Obstacles): Promise<DataSet | null> {
  const look = lookAt(path);
  if (look === null) {
    obstacles.addMissing(path);
    return null;
  }
  if (look.stats?.isDirectory()) {
    return { path, files: await listTree(path, { include: travels, isVolume: isVolumeName, obstacles }) };
  }
  const fault = look.fault ?? (await fileFault(path));
  if (fault !== null) obstacles.add(path, fault);
  return fault === null && look.stats ? { path, files: null, size: look.stats.size } : null;
}

/** One volume to send: a file, or a directory that travels whole (a DICOM series, a Zarr store). */
export type Unit =
  | { readonly kind: 'file'; readonly path: string; readonly size: number }
  | { readonly kind: 'series' | 'store'; readonly path: string; readonly files: readonly ListedFile[] };

export interface CollectOptions {
  /** Where results go: not entered, nor a numbered directory of results beside it, unless a path names it. */
  readonly output?: string | null;
  /** Whether to send sidecars beside volumes as well. */
  readonly allFiles?: boolean;
  readonly obstacles: Obstacles;
}

/** Why nothing is sent of directories without a volume. */
const noVolume = (count: number): string =>
  count === 1
    ? 'is not a volume, and there is none beside it; --all-files sends it'
    : `is not a volume, nor are ${count - 1} more, and there is none beside them; --all-files sends them`;

/** What the paths of one group come to. */
export interface Collected {
  readonly units: readonly Unit[];
  /** Files beside volumes, which are not volumes themselves and are not sent. */
  readonly skipped: readonly string[];
}

/** The elements for which the condition holds, and the others. */
function partition<T>(elements: readonly T[], condition: (element: T) => boolean): [T[], T[]] {
  const [yes, no]: [T[], T[]] = [[], []];
  for (const element of elements) (condition(element) ? yes : no).push(element);
  return [yes, no];
}

/** Finds the volumes of paths, one after the other. */
class Collector {
  readonly units: Unit[] = [];
  readonly skipped: string[] = [];
  /** Sidecars that a path names. They may be what was meant, or be there because a shell expanded a pattern. */
  readonly named: string[] = [];

  readonly #output: string | null;

  constructor(private readonly options: CollectOptions) {
    this.#output = options.output ? path.resolve(options.output) : null;
  }

  async addPath(given: string): Promise<void> {
    const { obstacles } = this.options;
    const before = this.#found;
    const targets = lookAt(given) ? [given] : await matchesOf(given);
    if (targets.length === 0) {
      const why = given.includes(replacement) ? '; a file whose name is not UTF-8 must be renamed first' : '';
      obstacles.addMissing(given, why);
      return;
    }
    for (const target of targets) {
      if (this.#isLeftOut(target)) this.named.push(target);
      else await this.addTarget(target);
    }
    if (this.#found === before) obstacles.add(given, nothingToSend);
  }

  async addTarget(target: string): Promise<void> {
    const look = lookAt(target);
    // A file may be removed between two looks.
    if (look?.fault) this.options.obstacles.add(target, look.fault);
    else if (look?.stats) await this.#add(target, look.stats, []);
  }

  get #found(): number {
    const { units, skipped, named } = this;
    return units.length + skipped.length + named.length + this.options.obstacles.count;
  }

  #isLeftOut(target: string): boolean {
    return !this.options.allFiles && isSidecar(target) && !lookAt(target)?.stats?.isDirectory();
  }

  async #add(target: string, stats: Stats, ancestors: readonly string[]): Promise<void> {
    const { obstacles, allFiles } = this.options;
    if (!stats.isDirectory()) {
      const isEmpty = stats.size === 0 && !(allFiles && isSidecar(target));
      const fault = isEmpty ? emptyFile : target.endsWith(volumeSuffix) ? await archiveFault(target) : null;
      if (fault !== null) obstacles.add(target, fault);
      else this.units.push({ kind: 'file', path: target, size: stats.size });
      return;
    }
    const real = await realpath(target);
    if (ancestors.includes(real)) return;
    if ((await isZarrStore(target)) || (await isZarrStore(real))) return this.#addTree('store', target);
    const hasSlices = await holdsSlices(target);
    if (hasSlices && !(await holdsOtherVolumes(target, (at) => !this.#isResult(at)))) {
      return this.#addTree('series', target);
    }
    let children = await entriesOf(target, (name, at) => this.#isWanted(name, at), obstacles);
    if (hasSlices) children = this.#addLooseSlices(target, children);
    for (const child of children) await this.#add(child.path, child.stats, [...ancestors, real]);
  }

  /**
   * Adds the slices that lie beside other volumes as a series of their own. A single slice is a volume like any other.
   * @returns the entries that are left
   */
  #addLooseSlices(directory: string, entries: Entry[]): Entry[] {
    const [slices, others] = partition(
      entries,
      ({ stats, path: file }) => !stats.isDirectory() && isSlice(file),
    );
    if (slices.length < 2) return entries;
    for (const { path: file, stats } of slices) {
      if (stats.size === 0) this.options.obstacles.add(file, emptyFile);
    }
    const files = slices.map(({ name, path: file, stats }) => ({ name, path: file, size: stats.size }));
    this.units.push({ kind: 'series', path: directory, files });
    return others;
  }

  /** Whether a directory has the result of an earlier run, which is not an input unless a path names it. */
  #isResult(directory: string): boolean {
    return this.#output !== null && isPlaceOfResults(directory, this.#output);
  }

  #isWanted(name: string, child: string): boolean {
    if (isHidden(name)) return false;
    if (name === resultName || this.#isResult(child)) return false;
    if (!this.#isLeftOut(child)) return true;
    this.skipped.push(child);
    return false;
  }

  async #addTree(kind: 'series' | 'store', target: string): Promise<void> {
    const files = await listTree(target, {
      // Inside a store every file counts, hidden or not.
      include:
        kind === 'store' ? () => true : (name) => travels(name) && !this.#isResult(path.join(target, name)),
      isVolume: kind === 'store' ? () => false : (name) => !isSidecar(name),
      obstacles: this.options.obstacles,
    });
    this.units.push({ kind, path: target, files });
  }
}

/**
 * The volumes that the paths of one group name (interface.md, Clients): files as they are, globs sorted by name, directories
 * walked in the order of names without hidden files, links followed. A DICOM series and a `.zarr` store count as one volume.
 * Sidecars are left out, unless paths name them and the group has nothing else: an app may be one for text.
 */
export async function collectUnits(paths: readonly string[], options: CollectOptions): Promise<Collected> {
  const { obstacles } = options;
  const before = obstacles.count;
  const collector = new Collector(options);
  for (const given of paths) await collector.addPath(given);
  const { units, named, skipped } = collector;
  if (units.length === 0 && obstacles.count === before) {
    for (const target of named) await collector.addTarget(target);
    if (named.length === 0 && skipped[0] !== undefined) obstacles.add(skipped[0], noVolume(skipped.length));
    return { units, skipped };
  }
  return { units, skipped: [...named, ...skipped] };
}
