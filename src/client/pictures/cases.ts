import { existsSync } from 'node:fs';
import path from 'node:path';
import { quotePath, resultName, tableName } from '../../contract/index.js';
import { foldedName } from '../../files/index.js';
import { isSameGeometry, openSeries, openVolume, VolumeError, type VolumeFile } from '../../volumes/index.js';
import { findVolumes, groupBy, namesOf, type Unit, withoutVolumeEnding } from '../inputs/index.js';
import { bestOf, foldersOf, type Named, rankOf, resultOf, ScanSearch } from './find-scan.js';
import { organGroups, organsOf } from './organs.js';
import { pausing } from './pausing.js';
import { WholeLabels } from './whole-labels.js';

/** A scan and what came back of it; volumes whose header has been read. */
export interface ShownCase {
  readonly name: string;
  readonly scan: VolumeFile | null;
  readonly mask: VolumeFile | null;
  /** Continuous volumes that were made from the scan, such as an uncertainty. */
  readonly maps: readonly VolumeFile[];
  /** What a person should know: which scan was found, and which was chosen of several. */
  readonly notes: readonly string[];
}

/** A volume among the paths. */
interface Item extends Named {
  readonly file: VolumeFile;
  /** Without the ending, as it was written. */
  readonly name: string;
  readonly isMask: boolean;
  /** Whether it is a mask of one value, which the file does not name itself. */
  readonly isBinary: boolean;
  /** Whether it lies in the directory of a result, where a continuous volume is one that was made from a scan. */
  readonly isOfResult: boolean;
}

/** Most different values of a segmentation that are looked for, without the background. */
const mostLabels = 256;

/** Slices of which the values are looked at. */
const lookedAt = 16;

/** Pairs of neighbours in the foreground after which it is clear what a volume is. */
const enoughPairs = 2000;

/** What a volume looks like: a mask with one value or none, a segmentation with several labels, or anything else. */
type Looks = 'binary' | 'labels' | 'continuous';

/**
 * What a volume looks like. Of a segmentation, the values are few whole numbers, and neighbours mostly have the same one. Eight bits of
 * brightness are few integers too, but differ from voxel to voxel. Reads only as many slices as it takes to see that.
 */
async function looksOf(file: VolumeFile, signal?: AbortSignal): Promise<Looks> {
  if (file.labels !== null) return 'labels';
  if (file.components > 1 || file.modality !== null) return 'continuous';
  const [width, height, depth] = file.size;
  const only = [
    ...new Set(Array.from({ length: lookedAt }, (_, at) => Math.floor(((at + 0.5) * depth) / lookedAt))),
  ];
  const whole = new WholeLabels();
  const known = new Set<number>();
  let [pairs, same] = [0, 0];
  for await (const { values } of pausing(file.slices({ only }), signal)) {
    for (let y = 0, at = 0; y < height; y += 1) {
      let before = 0;
      for (let x = 0; x < width; x += 1, at += 1) {
        const value = values[at] as number;
        if (value !== 0 && !Number.isNaN(value)) {
          if (value !== before) {
            const label = whole.of(value);
            if (label === null) return 'continuous';
            if (label !== 0) known.add(label);
          }
          if (before !== 0) {
            pairs += 1;
            if (value === before) same += 1;
          }
          before = value;
        } else before = 0;
      }
      if (known.size > mostLabels) return 'continuous';
    }
    if (pairs > enoughPairs) break;
  }
  if ((whole.isScaled && !whole.hasAny) || same * 2 < pairs) return 'continuous';
  return known.size > 1 ? 'labels' : 'binary';
}

/** Opens what was found; a sentence for what cannot be read. */
async function open(unit: Unit, signal?: AbortSignal): Promise<VolumeFile | string> {
  if (unit.kind === 'file' && unit.fault !== undefined) return `${quotePath(unit.path)} ${unit.fault}.`;
  try {
    return unit.kind === 'series'
      ? await openSeries(
          unit.files.map((file) => file.path),
          unit.path,
          { signal },
        )
      : await openVolume(unit.path, { signal });
  } catch (error) {
    if (error instanceof VolumeError) return error.message;
    throw error;
  }
}

async function itemsOf(units: readonly Unit[], problems: string[], signal?: AbortSignal): Promise<Item[]> {
  const items: Item[] = [];
  for (const unit of units) {
    if (path.basename(unit.path) === resultName) continue;
    signal?.throwIfAborted();
    const file = await open(unit, signal);
    if (typeof file === 'string') {
      problems.push(file);
      continue;
    }
    const name =
      unit.kind === 'series' ? unit.wanted : withoutVolumeEnding(path.basename(path.resolve(unit.path)));
    let kind: Looks = 'continuous';
    try {
      kind = await looksOf(file, signal);
    } catch (error) {
      if (!(error instanceof VolumeError)) throw error;
      problems.push(error.message);
      continue;
    }
    items.push({
      file,
      name,
      stem: foldedName(name),
      folders: foldersOf(unit.path),
      isMask: kind !== 'continuous',
      isBinary: kind === 'binary',
      isOfResult: resultOf(unit.path) !== null,
    });
  }
  return items;
}

/** Masks of single organs of one patient become one segmentation of all. */
function withOrgans(items: readonly Item[]): Item[] {
  const groups = organGroups(items.filter(({ isBinary }) => isBinary));
  const merged = new Map<Item, Item>();
  for (const group of groups) {
    const [first] = group.masks;
    if (!first) continue;
    const name = group.prefix || path.basename(path.dirname(path.resolve(first.file.path)));
    const whole = { ...first, file: organsOf(group), name, stem: foldedName(name), isBinary: false };
    for (const each of group.masks) merged.set(each, whole);
  }
  return [...new Set(items.map((item) => merged.get(item) ?? item))];
}

/** The scan of a segmentation, and a note if there is a doubt. */
interface Match {
  readonly scan: Item;
  readonly note: string | null;
}

/**
 * The scans of segmentations: by their names, then by their grids. Those whose names fit no scan can only belong to scans
 * that no name fits; a single one of these is taken in any case.
 */
function scansOf(masks: readonly Item[], scans: readonly Item[]): Map<Item, Match> {
  const matches = new Map<Item, Match>();
  const named = new Set<Item>();
  for (const mask of masks) {
    const fitting = bestOf(scans, (scan) => rankOf(mask, scan));
    for (const scan of fitting) named.add(scan);
    const onGrid = fitting.filter(({ file }) => isSameGeometry(file, mask.file));
    const [scan, ...others] = onGrid.length > 0 ? onGrid : fitting;
    // Several volumes of one name and grid, as of the sequences of an examination: any of them shows where labels lie.
    if (scan && (others.length === 0 || onGrid.length > 0)) {
      const names = others.map(({ name }) => name).join(', ');
      matches.set(mask, { scan, note: names === '' ? null : `${mask.name} fits ${names} as well` });
    }
  }
  const free = scans.filter((scan) => !named.has(scan));
  for (const mask of masks.filter((each) => !matches.has(each))) {
    const onGrid = free.filter(({ file }) => isSameGeometry(file, mask.file));
    const [scan, ...others] = onGrid.length > 0 ? onGrid : free;
    if (scan && others.length === 0) matches.set(mask, { scan, note: null });
  }
  return matches;
}

/** A case while it is put together. */
interface Draft {
  readonly scan: Item | null;
  readonly masks: { readonly item: Item; readonly notes: readonly string[] }[];
  readonly maps: Item[];
  readonly notes: string[];
}

const draftOf = (scan: Item | null, notes: readonly string[] = []): Draft => ({
  scan,
  masks: [],
  maps: [],
  notes: [...notes],
});

/** The scan that was found for a result, and a note that says so. */
interface Found {
  readonly scan: Item;
  /** Null for a scan that a person has named. */
  readonly note: string | null;
}

/**
 * The volume that a map was made from: its name goes on from that volume's. In a result, folders count too, and a single
 * scan outside of it is taken in any case.
 */
function baseOf(map: Item, continuous: readonly Item[]): Item | null {
  const others = continuous.filter(
    (each) => each !== map && (each.stem !== map.stem || (map.isOfResult && !each.isOfResult)),
  );
  const [extended] = bestOf(others, (each) => rankOf(map, each, 'extends'));
  if (extended || !map.isOfResult) return extended ?? null;
  const outside = others.filter((each) => !each.isOfResult);
  const [fitting, ...more] = bestOf(outside, (each) => rankOf(map, each));
  if (fitting) return more.length === 0 ? fitting : null;
  return outside.length === 1 ? (outside[0] ?? null) : null;
}

/** Brings volumes together that belong to each other. Two scans alone are two cases. */
function pair(items: readonly Item[], found: ReadonlyMap<Item, Found>): Draft[] {
  const drafts: Draft[] = [];
  const byScan = new Map<Item, Draft>();
  const draftFor = (scan: Item, notes: readonly string[] = []) => {
    const known = byScan.get(scan) ?? draftOf(scan, notes);
    if (!byScan.has(scan)) drafts.push(known);
    byScan.set(scan, known);
    return known;
  };
  const continuous = items.filter(({ isMask }) => !isMask);
  const bases = new Map(
    continuous.flatMap((map) => {
      const base = baseOf(map, continuous);
      return base ? [[map, base] as const] : [];
    }),
  );
  const scans = continuous.filter((item) => !bases.has(item) && !found.has(item));
  const matches = scansOf(
    items.filter((item) => item.isMask && !found.has(item)),
    scans,
  );
  for (const item of items) {
    const there = found.get(item);
    if (there) {
      const draft = draftFor(there.scan, there.note ? [there.note] : []);
      if (item.isMask) draft.masks.push({ item, notes: [] });
      else draft.maps.push(item);
    } else if (item.isMask) {
      const match = matches.get(item);
      if (match) draftFor(match.scan).masks.push({ item, notes: match.note ? [match.note] : [] });
      else drafts.push({ ...draftOf(null), masks: [{ item, notes: [] }] });
    } else {
      let base = bases.get(item);
      while (base && bases.has(base)) base = bases.get(base);
      if (base) draftFor(base).maps.push(item);
      else draftFor(item);
    }
  }
  return drafts;
}

const fileOf = ({ file }: Item): VolumeFile => file;

/** The name of a case of many, as in the table beside its directory; null for any other result. */
function nameInTable({ file }: Item): string | null {
  const directory = resultOf(file.path);
  if (directory === null || !existsSync(path.join(path.dirname(directory), tableName))) return null;
  return path.basename(directory);
}

/** A case for each segmentation of a scan, with the volume that it is named after. Maps are shown with the first of them. */
function casesOf({ scan, masks, maps, notes }: Draft): { readonly shown: ShownCase; readonly after: Item }[] {
  const result = masks[0]?.item ?? maps[0];
  const inTable = masks.length > 1 || !result ? null : nameInTable(result);
  if (masks.length === 0 && scan) {
    const shown = { name: inTable ?? scan.name, scan: scan.file, mask: null, maps: maps.map(fileOf), notes };
    return [{ after: scan, shown }];
  }
  return masks.map(({ item, notes: own }, at) => {
    const after = scan && masks.length === 1 ? scan : item;
    const shown = {
      name: inTable ?? after.name,
      scan: scan?.file ?? null,
      mask: item.file,
      maps: at === 0 ? maps.map(fileOf) : [],
      notes: [...notes, ...own],
    };
    return { shown, after };
  });
}

/** The cases, those that share a name with what tells their folders apart: `c1_t1` and `c2_t1`. */
function named(cases: readonly ReturnType<typeof casesOf>[number][]): ShownCase[] {
  const sharing = groupBy(cases, ({ shown }) => foldedName(shown.name)).filter((group) => group.length > 1);
  const names = new Map(
    sharing.flatMap((group) => {
      const distinct = namesOf(group.map(({ after }) => after.file.path));
      return group.map(({ shown }, at) => [shown, withoutVolumeEnding(distinct[at] ?? '')] as const);
    }),
  );
  return cases.map(({ shown }) => ({ ...shown, name: names.get(shown) ?? shown.name }));
}

export interface FindCasesOptions {
  readonly output?: string | null;
  /** Ends the reading. */
  readonly signal?: AbortSignal | undefined;
  readonly onRead?: (done: number, total: number) => void;
}

/**
 * Finds which scans and results belong together, among files and directories in any order: by their names and folders,
 * and by their grids where the names leave a doubt. Without a scan among the paths, it is looked for beside the result and
 * in the current directory.
 * @param options.output where results go: directories are not searched for earlier ones, unless a path names them
 * @param options.onRead called while the beginnings of many files are read
 * @returns the cases in the order of the paths, and a sentence for each volume that cannot be read
 * @throws UsageError for what does not exist and for paths without a volume, VolumeError if no volume can be read
 */
export async function findCasesToShow(
  paths: readonly string[],
  options: FindCasesOptions = {},
): Promise<{ readonly cases: readonly ShownCase[]; readonly problems: readonly string[] }> {
  const problems: string[] = [];
  const items = withOrgans(await itemsOf(await findVolumes(paths, options), problems, options.signal));
  if (items.length === 0) throw new VolumeError(problems[0] ?? 'There is no volume to show.');
  const found = await findScans(items);
  return { cases: named(pair(items, found).flatMap(casesOf)), problems };
}

/** Most scans of the same name that are compared. */
const mostCompared = 8;

const isNamedScan = ({ isMask, isOfResult }: Item): boolean => !(isMask || isOfResult);

/** Looks for the scans of results: among those that were named, by the records; if none was, elsewhere. */
async function findScans(items: readonly Item[]): Promise<Map<Item, Found>> {
  const named = items.filter(isNamedScan);
  const results = items.filter((item) => !isNamedScan(item));
  // Whoever names a scan wants that one.
  const isComplete = named.length > 0;
  const pathOf = ({ file }: Item) => file.path;
  const search = new ScanSearch(results.map(pathOf), isComplete ? named.map(pathOf) : null);
  const opened = new Map<string, readonly Item[]>(named.map((item) => [item.file.path, [item]]));
  const found = new Map<Item, Found>();
  for (const item of results) {
    const candidates: Item[] = [];
    const { paths, isRecorded } = await search.find(item, item.file.path);
    for (const target of paths.slice(0, mostCompared)) {
      const known =
        opened.get(target) ??
        (await findVolumes([target])
          .then((units) => itemsOf(units, []))
          .catch(() => []));
      opened.set(target, known);
      // A directory is a scan if it holds one volume.
      if (known.length === 1) candidates.push(...known.filter(({ isMask }) => !isMask));
    }
    const onGrid = candidates.filter(({ file }) => isSameGeometry(file, item.file));
    const [scan, ...others] = onGrid.length > 0 ? onGrid : candidates;
    if (!scan || others.length > 0) continue;
    const place = path.relative('', scan.file.path) || scan.file.path;
    found.set(item, {
      scan,
      note: isComplete ? null : `The scan is ${place}, found by ${isRecorded ? 'the record' : 'its name'}`,
    });
  }
  return found;
}
