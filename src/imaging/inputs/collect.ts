import { lstatSync } from 'node:fs';
import { realpath } from 'node:fs/promises';
import path from 'node:path';
import { guessesOnNifti, isImage, isPairVoxels, isSegmentation } from '@remote-app/volumes/headers';
import type { ChooseSeries } from '../../client/case/index.js';
import type { FoundFiles, Series, Unit } from '../../client/found-files.js';
import { quotePath, volumeSuffix } from '../../contract/index.js';
import { firstBytes } from '../../files/index.js';
import { archiveFault } from './data-set.js';
import { emptyFile, isBelow, lookAt, nothingToSend, type Obstacles } from './entries.js';
import { dicom, formatNameOf, isSidecar, zarr } from './formats.js';
import { matchesOf, replacement, splitPattern } from './glob.js';
import {
  type FoundFile,
  partition,
  type Recognised,
  recognise,
  splitCompanions,
  splitCopies,
  volumeFault,
} from './recognise.js';
import { type Followed, verdictOn } from './sending-rules.js';
import { type DicomFile, groupSeries, seriesName } from './series.js';
import { byPath, type Found, Walk, type WalkOptions } from './walk.js';
import { readStore } from './zarr.js';

export interface CollectOptions extends WalkOptions {
  /**
   * Whether DICOM segmentations count as volumes; called if a directory has segmentations beside images. By default they do not.
   */
  readonly takesSegmentations?: () => Promise<boolean>;
  readonly choose?: ChooseSeries | undefined;
  /** Called as files are read to recognise them. */
  readonly onRead?: ((done: number, total: number) => void) | undefined;
}

/** The result of collecting the paths of one group. */
export interface Collected
  extends Pick<FoundFiles, 'skipped' | 'copies' | 'strays' | 'followed' | 'objects'> {
  readonly units: readonly Unit[];
  /** Directories whose files are all sent because none has a known format. */
  readonly unknown: readonly string[];
  /** Directories that were visited before by another path. */
  readonly repeated: readonly string[];
}

/** Explains why nothing of directories without a volume is sent or shown. */
function noVolume(count: number, { purpose }: Obstacles): string {
  const [more, them] = count === 1 ? ['', 'it'] : [`, nor are ${count - 1} more`, 'them'];
  const remedy = purpose === 'sent' ? `; --all-files sends ${them}` : '';
  return `is not a volume${more}, and there is no volume beside ${them}${remedy}`;
}

/** Headers whose voxels are in other files, and such voxel files: only the header says how these are packed. */
const detached = /\.(hdr|hdr\.gz|mhd|nhdr|raw|raw\.gz|zraw)$/i;

/** Finds the volumes of paths, one after the other. */
class Collector {
  readonly units: Unit[] = [];
  readonly skipped: string[] = [];
  readonly copies: string[] = [];
  readonly repeated: string[] = [];
  readonly strays: string[] = [];
  readonly followed: Followed[] = [];
  readonly objects: FoundFiles['objects'][number][] = [];
  readonly unknown: string[] = [];
  /** Sidecars named by a path. The user may have meant them, or a shell may have expanded a pattern to them. */
  readonly named: string[] = [];

  readonly #walk: Walk;
  /** Why images cannot be sent, by their paths: their series fails. */
  readonly #faults = new Map<string, string>();

  /** The directory in which units are currently being found. */
  #from: Pick<Unit, 'base'> = {};

  constructor(private readonly options: CollectOptions) {
    this.#walk = new Walk(options, this.skipped, this.repeated);
  }

  async addPath(given: string): Promise<void> {
    const { obstacles } = this.options;
    const before = this.#found;
    const isWhole = lookAt(given) !== null;
    const targets = isWhole ? [given] : await matchesOf(given);
    if (targets.length === 0) {
      const why = given.includes(replacement) ? '; a file whose name is not UTF-8 must be renamed first' : '';
      obstacles.addMissing(given, why);
      return;
    }
    // Matches of a pattern lie below the directory that it begins with.
    const base = targets[0] === given ? null : splitPattern(given).directory || '.';
    for (const target of targets) {
      if (base !== null && !this.#walk.isChosen(target)) continue;
      if (this.#walk.isLeftOut(target)) this.named.push(target);
      else if (!isWhole && this.#walk.isFoundAside(given, target)) continue;
      else await this.addTarget(target, base);
    }
    if (this.#found === before) obstacles.add(given, nothingToSend);
  }

  /** @param base the directory that a pattern begins with; null for a path that was given literally */
  async addTarget(target: string, base: string | null = null): Promise<void> {
    const look = lookAt(target);
    const before = this.units.length;
    const from = base ?? (look?.stats?.isDirectory() ? target : null);
    this.#from = from === null ? {} : { base: from };
    // The file may have been removed since it was listed.
    if (look?.fault) this.options.obstacles.add(target, look.fault);
    else if (look?.stats?.isDirectory()) await this.#addDirectory(target, await realpath(base ?? target));
    else if (look?.stats) await this.#addNamed({ path: target, size: look.stats.size }, base);
    this.#addFailing(before);
  }

  /**
   * Inserts the files whose failure affects only their own case, in the order of names. The first `before` units belong to other
   * paths and are skipped.
   */
  #addFailing(before: number): void {
    for (const [file, fault] of this.options.obstacles.takeAlone()) {
      const at = this.units.findIndex((unit, index) => index >= before && byPath(unit.path, file) > 0);
      const unit = this.#failing(file, formatNameOf(file), fault);
      this.units.splice(at < 0 ? this.units.length : at, 0, unit);
    }
  }

  #failing(file: string, format: string | null, fault: string): Unit {
    return { kind: 'file', path: file, size: 0, format, fault, ...this.#from };
  }

  get #found(): number {
    const { units, skipped, named, objects } = this;
    return units.length + skipped.length + named.length + objects.length + this.options.obstacles.count;
  }

  async #addNamed(file: FoundFile, base: string | null): Promise<void> {
    const isLink = base !== null || lstatSync(file.path).isSymbolicLink();
    const root = await realpath(base ?? path.dirname(file.path));
    const why = await this.#against(file.path, isLink, root);
    if (why !== null) this.options.obstacles.add(file.path, why);
    else await this.#addFile(file, formatNameOf(file.path), { isNamed: base === null, root });
  }

  /** Why a file may not leave; null if it may. A link that leads out of the named directory is recorded. */
  async #against(file: string, isLink: boolean, root: string): Promise<string | null> {
    const verdict = await verdictOn({ role: 'named', path: file, isLink, root });
    if (!verdict.leaves) return verdict.why;
    if (verdict.target !== null) this.followed.push({ path: file, target: verdict.target });
    return null;
  }

  async #addFile(
    { path: file, size }: FoundFile,
    format: string | null,
    more: { series?: Series; isNamed?: boolean; root?: string; doubt?: string } = {},
  ): Promise<void> {
    const isEmpty = size === 0 && !(this.options.allFiles && isSidecar(file));
    const isArchive = file.endsWith(volumeSuffix) && more.doubt === undefined;
    const fault = isEmpty
      ? emptyFile
      : isArchive
        ? await archiveFault(file)
        : await this.#volumeFault(file, more);
    if (fault !== null) return this.options.obstacles.add(file, fault);
    const remarks = format === 'NIfTI' ? guessesOnNifti(firstBytes(file, 4096)) : [];
    const known = { ...this.#from, ...more, ...(remarks.length > 0 && { remarks }) };
    this.units.push({ kind: 'file', path: file, size, format, ...known });
  }

  /** Why a volume is incomplete; null if it is complete. Headers with separate voxel files are checked when these are found. */
  async #volumeFault(
    file: string,
    { series, doubt }: { series?: Series; doubt?: string },
  ): Promise<string | null> {
    const isChecked = this.options.obstacles.purpose === 'sent' && !series && doubt === undefined;
    if (!isChecked || isPairVoxels(file) || detached.test(file)) return null;
    return volumeFault(file);
  }

  async #addStore({ path: directory, isLink }: Found): Promise<void> {
    const { files, strays, followed } = await readStore(directory, this.options.obstacles);
    this.strays.push(...strays);
    this.followed.push(...followed);
    if (isLink) this.followed.push({ path: directory, target: await realpath(directory) });
    this.units.push({ kind: 'store', path: directory, files, format: zarr, ...this.#from });
  }

  /**
   * Removes files that may not leave, such as a text that a link leads to.
   * @returns the remaining files, and doubts about some of them that only a header can resolve
   */
  async #allowed(
    found: readonly Found[],
    files: readonly Recognised[],
    root: string,
  ): Promise<{ readonly files: Recognised[]; readonly doubts: ReadonlyMap<string, string> }> {
    const links = new Set(found.filter(({ isLink }) => isLink).map((each) => each.path));
    const doubts = new Map<string, string>();
    const left = new Set<Recognised>();
    for (const file of files) {
      const why = links.has(file.path) ? await this.#against(file.path, true, root) : null;
      if (why === null) continue;
      if (file.format !== null && file.format !== dicom) {
        doubts.set(file.path, why);
        continue;
      }
      left.add(file);
      if (file.format === dicom || this.options.allFiles) this.options.obstacles.add(file.path, why);
      else this.skipped.push(file.path);
    }
    return { files: files.filter((each) => !left.has(each)), doubts };
  }

  /** @param root the real path of the directory that was named */
  async #addDirectory(directory: string, root: string): Promise<void> {
    const found = await this.#walk.below(directory, root);
    const read = await recognise(
      found.filter((each) => !each.isStore),
      this.options.obstacles,
      this.options.onRead,
    );
    const { files, doubts } = await this.#allowed(found, read, root);
    const hasSegmentations = files.some(({ header }) => header !== null && isSegmentation(header));
    const takesSegmentations = hasSegmentations && ((await this.options.takesSegmentations?.()) ?? false);
    const { series, others } = this.#sortOut(
      directory,
      files,
      found.some((each) => each.isStore),
      takesSegmentations,
    );
    const chosen = series.length > 0 ? ((await this.options.choose?.(series)) ?? null) : null;
    const sent = chosen ?? series;
    const firsts = new Map(sent.map((each) => [each.files[0]?.path, each.path]));
    const left = [...sent];
    for (const each of found) {
      const at = firsts.get(each.path);
      if (at !== undefined) {
        // Series of one directory are sorted by number, whatever their files are called.
        const index = left.findIndex((one) => one.path === at);
        for (const next of left.splice(index, 1)) await this.#addSeries(next, series);
      } else if (each.isStore) await this.#addStore(each);
      else if (others.has(each.path)) {
        const doubt = doubts.get(each.path);
        const more = { root, ...(doubt === undefined ? {} : { doubt }) };
        await this.#addFile(each, others.get(each.path) ?? null, more);
      }
    }
  }

  /** @param all the series of the directory, whether or not they are sent */
  async #addSeries(series: Series, all: readonly Series[]): Promise<void> {
    const { path: place, files, isFile } = series;
    const { obstacles } = this.options;
    const [first] = files;
    const [cut] = files.flatMap(({ path: file }) => {
      const why = this.#faults.get(file);
      return why === undefined ? [] : { file, why };
    });
    if (cut && !obstacles.failsAlone) return obstacles.add(cut.file, cut.why);
    if (cut && isFile) return void this.units.push(this.#failing(cut.file, dicom, cut.why));
    if (isFile && first) return this.#addFile({ path: first.path, size: first.size ?? 0 }, dicom, { series });
    // If a series is split over several directories, the name of their parent says nothing about it.
    const isHere = files.some((file) => path.dirname(file.path) === place);
    const isAlone = isHere && all.every((each) => each === series || each.isFile || each.path !== place);
    this.units.push({
      kind: 'series',
      path: place,
      files,
      format: dicom,
      series,
      wanted: seriesName(series, isAlone),
      ...this.#from,
      ...(cut && { fault: `has ${quotePath(cut.file)}, which ${cut.why}` }),
    });
  }

  /**
   * Divides the files of a directory into series and files that are sent individually, and records what is not sent.
   * @param hasStores whether the directory has Zarr stores besides these files
   * @param takesSegmentations whether segmentations count as volumes
   * @returns the series, and the formats of the other files by path
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
      // A single slice among other volumes is treated as a volume of its own.
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
    this.skipped.push(...[...unknown, ...companions].filter(isLeft).map((file) => file.path));
    this.copies.push(...copies.map((file) => file.path));
    for (const { path, header } of objects.filter(isLeft)) {
      this.objects.push({ path, modality: header?.modality || 'of an unknown kind' });
    }
    return { series, others };
  }

  /** Treats an empty file in a directory of slices as a slice whose content was not copied, unless its name says otherwise. */
  #checkEmpty(unknown: readonly Recognised[], images: readonly DicomFile[]): void {
    const directories = new Set(images.map((file) => path.dirname(file.path)));
    for (const { path: file, size } of unknown) {
      const isSlice = size === 0 && directories.has(path.dirname(file)) && !isSidecar(file);
      if (isSlice) this.options.obstacles.add(file, emptyFile);
    }
  }

  /** The slices that can be sent. The others become obstacles. */
  #checked(slices: readonly Recognised[]): Recognised[] {
    const readable = new Set(slices.filter(({ header }) => header).map((file) => path.dirname(file.path)));
    return slices.filter(({ path: file, size, header, fault: cut }) => {
      if (cut !== null) this.#faults.set(file, cut);
      const isDamaged = header === null && readable.has(path.dirname(file));
      const fault = size === 0 ? emptyFile : isDamaged ? 'is a DICOM file whose header cannot be read' : null;
      if (fault !== null) this.options.obstacles.add(file, fault);
      return fault === null;
    });
  }
}

/**
 * The volumes that the paths of one group name. Globs are sorted by name. Directories are walked in the order of names, each
 * once, following links and skipping hidden files. In a directory, the images of a DICOM series and a `.zarr` store each count as
 * one volume, and other files are left out. Sidecars are left out too, unless paths name them and the group has nothing else: an
 * app may process text.
 */
export async function collectUnits(paths: readonly string[], options: CollectOptions): Promise<Collected> {
  const { obstacles } = options;
  const before = obstacles.count;
  const collector = new Collector(options);
  for (const given of paths) await collector.addPath(given);
  const { units, named, skipped, copies, repeated, strays, followed, objects, unknown } = collector;
  const found = { units, copies, repeated, strays, followed, objects, unknown };
  if (units.length === 0 && obstacles.count === before) {
    for (const target of named) await collector.addTarget(target);
    if (named.length === 0 && skipped[0] !== undefined)
      obstacles.add(skipped[0], noVolume(skipped.length, obstacles));
    return { ...found, skipped };
  }
  return { ...found, skipped: [...named, ...skipped] };
}
