import { readFileSync } from 'node:fs';
import { realpath } from 'node:fs/promises';
import path from 'node:path';
import type { ListedFile } from '../../archive/index.js';
import { resultName, volumeSuffix } from '../../contract/index.js';
import { isImage, isSegmentation } from '../../volumes/headers/index.js';
import { isResultDirectory } from '../earlier-results.js';
import { archiveFault } from './data-set.js';
import { byName, emptyFile, entriesOf, listTree, lookAt, nothingToSend, type Obstacles } from './entries.js';
import {
  bidsDescription,
  dicom,
  formatNameOf,
  hasZarrName,
  isBesideBidsData,
  isHidden,
  isSidecar,
  isZarrStore,
  withoutVolumeEnding,
  zarr,
} from './formats.js';
import { matchesOf, replacement } from './glob.js';
import { type FoundFile, type Recognised, recognise } from './recognise.js';
import { type DicomFile, groupSeries, type Series, seriesName } from './series.js';

/** One volume to send: a file, or files of a directory that travel together (a DICOM series, a Zarr store). */
export type Unit = {
  readonly path: string;
  /** The name of its format; null for one that is not known here. */
  readonly format: string | null;
} & (
  | {
      readonly kind: 'file';
      readonly size: number;
      /** Why it cannot be sent, in words that follow its path, where other cases can. */
      readonly fault?: string;
      /** What is known about a DICOM file in a directory. */
      readonly series?: Series;
    }
  | { readonly kind: 'store'; readonly files: readonly ListedFile[] }
  | {
      readonly kind: 'series';
      readonly files: readonly ListedFile[];
      readonly series: Series;
      /** The name that it should have: its directory has others. */
      readonly wanted: string;
    }
);

/** Chooses some of the series of a directory, and nothing else in it is sent; null to send everything. */
export type ChooseSeries = (series: readonly Series[]) => Promise<readonly Series[] | null>;

export interface CollectOptions {
  /** Where results go. Neither this directory nor a numbered one beside it is searched, unless a path names it. */
  readonly output?: string | null;
  /** Whether to send files that are not volumes too. */
  readonly allFiles?: boolean;
  /** Whether DICOM segmentations are volumes; asked if a directory has any beside images. By default they are not. */
  readonly takesSegmentations?: () => Promise<boolean>;
  readonly obstacles: Obstacles;
  readonly choose?: ChooseSeries | undefined;
  /** Called while the beginnings of many files are read. */
  readonly onRead?: ((done: number, total: number) => void) | undefined;
}

/** Why nothing is sent, or shown, of directories without a volume. */
function noVolume(count: number, { purpose }: Obstacles): string {
  const [more, them] = count === 1 ? ['', 'it'] : [`, nor are ${count - 1} more`, 'them'];
  const remedy = purpose === 'sent' ? `; --all-files sends ${them}` : '';
  return `is not a volume${more}, and there is none beside ${them}${remedy}`;
}

/** A DICOM object without an image, such as a plan. */
export interface LeftObject {
  readonly path: string;
  /** `RTSTRUCT`, `SR`; `of an unknown kind` if it is not given. */
  readonly modality: string;
}

/** The result of collecting the paths of one group. */
export interface Collected {
  readonly units: readonly Unit[];
  /** Files beside volumes, which are not volumes themselves and are not sent. */
  readonly skipped: readonly string[];
  /** DICOM objects beside images, which are not sent. */
  readonly objects: readonly LeftObject[];
  /** Directories whose files are all sent, because none has a known format. */
  readonly unknown: readonly string[];
}

/** A file, or a Zarr store, inside a directory. */
interface Found extends FoundFile {
  readonly isStore: boolean;
}

/** The elements for which the condition holds, and the others. */
function partition<T>(elements: readonly T[], condition: (element: T) => boolean): [T[], T[]] {
  const [yes, no]: [T[], T[]] = [[], []];
  for (const element of elements) (condition(element) ? yes : no).push(element);
  return [yes, no];
}

const isProbabilities = ({ path }: FoundFile): boolean => /\.npz$/i.test(path);

/** Separates nnU-Net's probability files, which have the name of the segmentation beside them, from the volumes. */
function splitCompanions(volumes: readonly Recognised[]): [companions: Recognised[], volumes: Recognised[]] {
  const stemOf = ({ path }: FoundFile) => withoutVolumeEnding(path);
  const stems = new Set(volumes.filter((file) => !isProbabilities(file)).map(stemOf));
  return partition(volumes, (file) => isProbabilities(file) && stems.has(stemOf(file)));
}

const isBelow = (directory: string, above: string): boolean =>
  directory === above || directory.startsWith(`${above}${path.sep}`);

/** Largest files that are compared, in bytes: slices are far smaller. */
const maxCompared = 64 << 20;

/** Whether two files have the same content. */
const areCopies = (a: FoundFile, b: FoundFile): boolean =>
  a.size === b.size && a.size <= maxCompared && readFileSync(a.path).equals(readFileSync(b.path));

/** Separates copies of one image, as an export to two directories makes them. Images of one UID that differ are all kept. */
function splitCopies(images: readonly DicomFile[]): { images: DicomFile[]; copies: DicomFile[] } {
  const byUid = new Map<string, DicomFile>();
  const copies = images.filter((file) => {
    const uid = file.header?.instanceUid;
    if (uid === null || uid === undefined) return false;
    const first = byUid.get(uid);
    if (first) return areCopies(first, file);
    byUid.set(uid, file);
    return false;
  });
  const isCopy = new Set(copies);
  return { images: images.filter((file) => !isCopy.has(file)), copies };
}

/** The order in which directories are walked. */
function byPath(a: string, b: string): number {
  const [partsOfA, partsOfB] = [a.split(path.sep), b.split(path.sep)];
  const at = partsOfA.findIndex((part, index) => part !== partsOfB[index]);
  return byName(partsOfA[at] ?? '', partsOfB[at] ?? '');
}

/** Finds the volumes of paths, one after the other. */
class Collector {
  readonly units: Unit[] = [];
  readonly skipped: string[] = [];
  readonly objects: LeftObject[] = [];
  readonly unknown: string[] = [];
  /** Sidecars that a path names. They may have been meant, or be the result of a pattern that a shell expanded. */
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
    const before = this.units.length;
    // The file may have been removed since it was listed.
    if (look?.fault) this.options.obstacles.add(target, look.fault);
    else if (look?.stats?.isDirectory()) await this.#addDirectory(target);
    else if (look?.stats) await this.#addFile({ path: target, size: look.stats.size }, formatNameOf(target));
    this.#addFailing(before);
  }

  /** Adds the files that fail alone at their places in the order of names, behind the first `before` units, which are of other paths. */
  #addFailing(before: number): void {
    for (const [file, fault] of this.options.obstacles.takeAlone()) {
      const at = this.units.findIndex((unit, index) => index >= before && byPath(unit.path, file) > 0);
      const unit: Unit = { kind: 'file', path: file, size: 0, format: formatNameOf(file), fault };
      this.units.splice(at < 0 ? this.units.length : at, 0, unit);
    }
  }

  get #found(): number {
    const { units, skipped, named, objects } = this;
    return units.length + skipped.length + named.length + objects.length + this.options.obstacles.count;
  }

  #isLeftOut(target: string): boolean {
    return !this.options.allFiles && isSidecar(target) && !lookAt(target)?.stats?.isDirectory();
  }

  async #addFile({ path: file, size }: FoundFile, format: string | null, series?: Series): Promise<void> {
    const isEmpty = size === 0 && !(this.options.allFiles && isSidecar(file));
    const fault = isEmpty ? emptyFile : file.endsWith(volumeSuffix) ? await archiveFault(file) : null;
    if (fault !== null) this.options.obstacles.add(file, fault);
    else this.units.push({ kind: 'file', path: file, size, format, ...(series ? { series } : {}) });
  }

  async #addStore(directory: string): Promise<void> {
    const { obstacles } = this.options;
    // Every file of a store counts, even a hidden one.
    const files = await listTree(directory, { include: () => true, isVolume: () => false, obstacles });
    this.units.push({ kind: 'store', path: directory, files, format: zarr });
  }

  async #addDirectory(directory: string): Promise<void> {
    const found: Found[] = [];
    await this.#walk(directory, [], found);
    const files = await recognise(
      found.filter((each) => !each.isStore),
      this.options.obstacles,
      this.options.onRead,
    );
    const hasSegmentations = files.some(({ header }) => header !== null && isSegmentation(header));
    const takesSegmentations = hasSegmentations && ((await this.options.takesSegmentations?.()) ?? false);
    const { series, others } = this.#sortOut(
      directory,
      files,
      found.length > files.length,
      takesSegmentations,
    );
    const chosen = series.length > 0 ? ((await this.options.choose?.(series)) ?? null) : null;
    const sent = chosen ?? series;
    const firsts = new Map(sent.map((each) => [each.files[0]?.path, each.path]));
    const left = [...sent];
    for (const each of found) {
      const at = firsts.get(each.path);
      if (at !== undefined) {
        // Slices of one directory are in the order of their numbers, whatever the files are called.
        const index = left.findIndex((one) => one.path === at);
        for (const next of left.splice(index, 1)) await this.#addSeries(next, sent);
      } else if (chosen !== null) continue;
      else if (each.isStore) await this.#addStore(each.path);
      else if (others.has(each.path)) await this.#addFile(each, others.get(each.path) ?? null);
    }
  }

  async #addSeries(series: Series, all: readonly Series[]): Promise<void> {
    const { path, files, isFile } = series;
    const [first] = files;
    if (isFile && first) return this.#addFile({ path: first.path, size: first.size ?? 0 }, dicom, series);
    const isAlone = all.every((each) => each === series || each.isFile || each.path !== path);
    this.units.push({
      kind: 'series',
      path,
      files,
      format: dicom,
      series,
      wanted: seriesName(series, isAlone),
    });
  }

  /**
   * Separates what a directory has into series and files that are sent by themselves, and notes what is not sent.
   * @param hasStores whether it has volumes besides these files
   * @param takesSegmentations whether segmentations are volumes
   * @returns the files by their paths, with their formats
   */
  #sortOut(
    directory: string,
    files: readonly Recognised[],
    hasStores: boolean,
    takesSegmentations: boolean,
  ): { readonly series: readonly Series[]; readonly others: ReadonlyMap<string, string | null> } {
    const { allFiles = false } = this.options;
    const [ofDicom, rest] = partition(files, ({ format }) => format === dicom);
    const isShown = ({ header }: Recognised) =>
      header === null || isImage(header) || (takesSegmentations && isSegmentation(header));
    const [shown, objects] = partition(ofDicom, isShown);
    const { images, copies } = splitCopies(this.#checked(shown));
    const [volumes, unknown] = partition(rest, ({ format, isPicture }) => format !== null && !isPicture);
    const [companions, own] = splitCompanions(volumes);
    const series = groupSeries(images).map((each) => {
      // A slice by itself among other volumes is a volume like any other.
      const isLoose = each.images === 1 && own.some((file) => isBelow(file.path, each.path));
      return isLoose ? { ...each, isFile: true } : each;
    });
    this.#checkEmpty(unknown, images);
    const isNothing = !hasStores && own.length + series.length === 0;
    const [pictures, odd] = partition(unknown, ({ isPicture }) => isPicture);
    const instead = [objects, pictures, odd].find((each) => each.length > 0) ?? [];
    const added = allFiles ? [...unknown, ...objects, ...companions] : isNothing ? instead : [];
    if (added === odd && odd.length > 0) this.unknown.push(directory);
    const others = new Map([...own, ...added].map((file) => [file.path, file.format]));
    const isLeft = (file: FoundFile) => !others.has(file.path);
    this.skipped.push(...[...unknown, ...companions, ...copies].filter(isLeft).map((file) => file.path));
    for (const { path, header } of objects.filter(isLeft)) {
      this.objects.push({ path, modality: header?.modality || 'of an unknown kind' });
    }
    return { series, others };
  }

  /** An empty file in a directory of slices is taken for a slice that was not copied, unless its name says otherwise. */
  #checkEmpty(unknown: readonly Recognised[], images: readonly DicomFile[]): void {
    const directories = new Set(images.map((file) => path.dirname(file.path)));
    for (const { path: file, size } of unknown) {
      const isSlice = size === 0 && directories.has(path.dirname(file)) && !isSidecar(file);
      if (isSlice) this.options.obstacles.add(file, emptyFile);
    }
  }

  /** Slices without those that cannot be sent, which are added to the obstacles. */
  #checked(slices: readonly Recognised[]): Recognised[] {
    const readable = new Set(slices.filter(({ header }) => header).map((file) => path.dirname(file.path)));
    return slices.filter(({ path: file, size, header }) => {
      const isDamaged = header === null && readable.has(path.dirname(file));
      const fault = size === 0 ? emptyFile : isDamaged ? 'is a DICOM file whose header cannot be read' : null;
      if (fault !== null) this.options.obstacles.add(file, fault);
      return fault === null;
    });
  }

  /** Adds the files and stores of a directory and below, links followed. */
  async #walk(directory: string, ancestors: readonly string[], found: Found[]): Promise<void> {
    const real = await realpath(directory);
    // A link to a directory above it: everything there has been found already.
    if (ancestors.includes(real)) return;
    if (hasZarrName(directory) || (await isZarrStore(real))) {
      found.push({ path: directory, size: 0, isStore: true });
      return;
    }
    const entries = await entriesOf(
      directory,
      (name, at) => this.#isWanted(name, at),
      this.options.obstacles,
    );
    const isBids = lookAt(path.join(directory, bidsDescription)) !== null;
    for (const { name, path: at, isDirectory, size } of entries) {
      if (!isDirectory) found.push({ path: at, size, isStore: false });
      else if (isBids && isBesideBidsData(name) && !this.options.allFiles) this.skipped.push(at);
      else await this.#walk(at, [...ancestors, real], found);
    }
  }

  /** Whether a directory contains the result of an earlier run. That is not an input unless a path names it. */
  #isResult(directory: string): boolean {
    return this.#output !== null && isResultDirectory(directory, this.#output);
  }

  #isWanted(name: string, child: string): boolean {
    if (isHidden(name)) return false;
    if (name === resultName || this.#isResult(child)) return false;
    if (!this.#isLeftOut(child)) return true;
    this.skipped.push(child);
    return false;
  }
}

/**
 * The volumes that the paths of one group name: files as they are, globs sorted by name, directories
 * walked in the order of names without hidden files, links followed. In a directory, the images of a DICOM series and a
 * `.zarr` store count as one volume, and what is not a volume is left out. Sidecars are left out, unless paths name them and
 * the group has nothing else: an app may be one for text.
 */
export async function collectUnits(paths: readonly string[], options: CollectOptions): Promise<Collected> {
  const { obstacles } = options;
  const before = obstacles.count;
  const collector = new Collector(options);
  for (const given of paths) await collector.addPath(given);
  const { units, named, skipped, objects, unknown } = collector;
  if (units.length === 0 && obstacles.count === before) {
    for (const target of named) await collector.addTarget(target);
    if (named.length === 0 && skipped[0] !== undefined)
      obstacles.add(skipped[0], noVolume(skipped.length, obstacles));
    return { units, skipped, objects, unknown };
  }
  return { units, skipped: [...named, ...skipped], objects, unknown };
}
