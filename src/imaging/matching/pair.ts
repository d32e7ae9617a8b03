import { existsSync } from 'node:fs';
import path from 'node:path';
import { isSameGeometry, type VolumeFile } from '@remote-app/volumes';
import { recordName, tableName } from '../../client/output-names.js';
import { findVolumes } from '../inputs/index.js';
import { caseNameOf, resultOf, ScanSearch } from './find-scan.js';
import { areTogether, type Named, rankOf, ScanMatcher, scanOf } from './match.js';

/** A volume among the paths. */
export interface Item extends Named {
  readonly file: VolumeFile;
  /** Its name without the extension, in its original case. */
  readonly name: string;
  readonly isMask: boolean;
  /** Whether it is a single-value mask whose file does not name its label. */
  readonly isBinary: boolean;
  /** Whether it lies in the directory of a result: a continuous volume there was made from a scan. */
  readonly isOfResult: boolean;
}

/** A case in a table: the directory of the table, and the name of the case in it. */
export interface TableCase {
  readonly table: string;
  readonly name: string;
}

/** A case being assembled. */
export interface Draft {
  readonly scan: Item | null;
  readonly masks: Item[];
  readonly maps: Item[];
  readonly notes: string[];
  /** The note saying that the scan was found through the record, or null. */
  recorded: string | null;
  /** The table cases whose results it contains, one for each table. The first one gives it its name. */
  readonly inTables: TableCase[];
}

/** The table case that a file belongs to; null if its result is in no table. */
function tableCaseOf(file: string): TableCase | null {
  const result = resultOf(file);
  if (result === null || !existsSync(path.join(result.root, tableName))) return null;
  const name = caseNameOf(result);
  return name === null ? null : { table: result.root, name };
}

const pathOf = ({ file }: Item): string => path.relative('', file.path) || file.path;

/** Lists volumes for a sentence. */
function listed(items: readonly Item[]): string {
  const [last, ...before] = items.map((item) => `'${pathOf(item)}'`).reverse();
  return before.length === 0 ? (last ?? '') : `${before.reverse().join(', ')} and ${last}`;
}

/** The scan that a result is drawn on. */
interface Match {
  readonly scan: Item | null;
  /** Notes for the user. */
  readonly notes: readonly string[];
  /** The note saying that the scan was found through the record. */
  readonly recorded?: string | undefined;
}

const isOnGridOf =
  ({ file }: Item) =>
  (scan: Item): boolean =>
    isSameGeometry(scan.file, file);

/** A result that fits several scans is drawn on none of them. */
const undecided = (result: Item, scans: readonly Item[]): Match => ({
  scan: null,
  notes: [`${result.name} fits ${listed(scans)} equally well, and is drawn on none of them`],
});

/** Chooses the scan that a result is drawn on among those that fit; null if none fits. */
function matchOf(result: Item, fitting: readonly Item[]): Match | null {
  if (fitting.length === 0) return null;
  const { scan, others } = scanOf(fitting, isOnGridOf(result), areTogether);
  if (!scan) return undecided(result, others);
  const names = others.map(({ name }) => name).join(', ');
  return { scan, notes: others.length === 0 ? [] : [`${result.name} fits ${names} as well`] };
}

/**
 * Finds the scans of results: first by the parts of names and folders in which scans differ, then by grids. A result that fits no
 * scan this way can only belong to a scan that no other result fits. If there is only one such scan, it is taken.
 */
function scansOf(results: readonly Item[], scans: readonly Item[]): Map<Item, Match> {
  const matcher = new ScanMatcher(scans);
  const matches = new Map<Item, Match>();
  const isTaken = new Set<Item>();
  const unsaid: Item[] = [];
  for (const result of results) {
    const { scans: fitting, isSaid } = matcher.fit(result);
    if (!isSaid) unsaid.push(result);
    for (const scan of isSaid ? fitting : []) isTaken.add(scan);
    const match = isSaid ? matchOf(result, fitting) : null;
    if (match) matches.set(result, match);
  }
  const free = scans.filter((scan) => !isTaken.has(scan));
  for (const result of unsaid) {
    const onGrid = free.filter(isOnGridOf(result));
    const [scan, ...others] = onGrid.length > 0 ? onGrid : free;
    if (scan && others.length === 0) matches.set(result, { scan, notes: [] });
    else if (onGrid.length > 1) matches.set(result, undecided(result, onGrid));
  }
  return matches;
}

/**
 * Finds the volume that a map was made from: the one whose name the map's name extends. For a map in a result, folders count too,
 * and if there is only one scan outside the result, it is taken.
 */
function baseOf(map: Item, continuous: readonly Item[]): Item | null {
  // A map outside results was not made from a volume inside one.
  const others = continuous.filter(
    (each) =>
      each !== map &&
      (map.isOfResult
        ? each.stem !== map.stem || !each.isOfResult
        : each.stem !== map.stem && !each.isOfResult),
  );
  const extended = others.filter((each) => rankOf(map, each, 'extends') > 0);
  const [base, ...more] = new ScanMatcher(others).fit(map, extended).scans;
  if (base && more.length === 0) return base;
  if (base || !map.isOfResult) return null;
  const outside = others.filter((each) => !each.isOfResult);
  const { scans, isSaid } = new ScanMatcher(outside).fit(map);
  const [fitting, ...rest] = isSaid || outside.length === 1 ? scans : [];
  return rest.length === 0 ? (fitting ?? null) : null;
}

/** The cases with their volumes: one for each scan, and one for each case of a table. */
class Drafts {
  readonly all: Draft[] = [];

  /** The case of a scan or, without one, of a result. It is created if necessary. */
  of(scan: Item | null, result: Item | null): Draft {
    const inTable = result && tableCaseOf(result.file.path);
    const ofTable = ({ inTables }: Draft) => inTables.find(({ table }) => table === inTable?.table);
    const fits = (draft: Draft) => {
      const known = ofTable(draft);
      return known ? known.name === inTable?.name : scan !== null;
    };
    const known = this.all.find((draft) => draft.scan === scan && fits(draft));
    const draft: Draft = known ?? { scan, masks: [], maps: [], notes: [], recorded: null, inTables: [] };
    if (inTable && !ofTable(draft)) draft.inTables.push(inTable);
    if (!known) this.all.push(draft);
    return draft;
  }
}

const add = (draft: Draft, item: Item, match: Pick<Match, 'notes' | 'recorded'> = { notes: [] }): void => {
  (item.isMask ? draft.masks : draft.maps).push(item);
  for (const note of match.notes) if (!draft.notes.includes(note)) draft.notes.push(note);
  draft.recorded ??= match.recorded ?? null;
};

/** Groups volumes that belong together into cases. Two scans without results are two cases. */
export async function pair(items: readonly Item[], openItems: OpenItems): Promise<Draft[]> {
  const { found, stale } = await findScans(items, openItems);
  const drafts = new Drafts();
  const shown = items.filter((item) => !stale.has(item));
  const continuous = shown.filter(({ isMask }) => !isMask);
  const bases = new Map(
    continuous.flatMap((map) => {
      const base = found.has(map) ? null : baseOf(map, continuous);
      return base ? [[map, base] as const] : [];
    }),
  );
  const scans = continuous.filter((item) => !bases.has(item) && !found.has(item));
  const matches = scansOf(
    shown.filter((item) => item.isMask && !found.has(item)),
    scans,
  );
  for (const item of items) {
    const why = stale.get(item);
    const match = found.get(item) ?? matches.get(item);
    if (why) {
      const scan = scans.find(({ file }) => why.paths.includes(file.path)) ?? null;
      const { notes } = drafts.of(scan, item);
      if (!notes.includes(why.note)) notes.push(why.note);
    } else if (item.isMask) add(drafts.of(match?.scan ?? null, item), item, match);
    else if (match) add(drafts.of(match.scan, item), item, match);
    else {
      let base = bases.get(item);
      while (base && bases.has(base)) base = bases.get(base);
      if (base) add(drafts.of(base, item), item);
      else if (!drafts.all.some(({ scan }) => scan === item)) drafts.of(item, null);
    }
  }
  return drafts.all;
}

/** Opens the volumes of a path; empty if there is none. */
export type OpenItems = (target: string) => Promise<readonly Item[]>;

/** Maximum number of scans compared for one result. */
const maxCompared = 8;

const isNamedScan = ({ isMask, isOfResult }: Item): boolean => !(isMask || isOfResult);

/** A result whose scan has changed since. */
interface Stale {
  readonly note: string;
  /** Paths with the name of its scan. */
  readonly paths: readonly string[];
}

/** Searches for the scans of results: if the user named scans, only among these, by the records; otherwise elsewhere. */
async function findScans(
  items: readonly Item[],
  openItems: OpenItems,
): Promise<{ readonly found: ReadonlyMap<Item, Match>; readonly stale: ReadonlyMap<Item, Stale> }> {
  const named = items.filter(isNamedScan);
  const results = items.filter((item) => !isNamedScan(item));
  // A user who names a scan wants that one.
  const isComplete = named.length > 0;
  const search = new ScanSearch(
    results.map(({ file }) => file.path),
    isComplete ? named.map(({ file }) => file.path) : null,
  );
  const opened = new Map<string, readonly Item[]>(named.map((item) => [item.file.path, [item]]));
  const found = new Map<Item, Match>();
  const stale = new Map<Item, Stale>();
  for (const item of results) {
    const candidates = new Map<string, Item>();
    const { paths, isRecorded, changed } = await search.find(item, item.file.path);
    for (const target of paths.slice(0, maxCompared)) {
      const known = opened.get(target) ?? (await openItems(target));
      opened.set(target, known);
      // A directory is a scan if it holds one volume.
      const [only] = known;
      if (only && known.length === 1 && (isRecorded || !only.isMask)) candidates.set(only.file.path, only);
    }
    if (paths.length === 0 && changed.length > 0) {
      const result = resultOf(item.file.path);
      const place = path.relative('', result?.path ?? item.file.path);
      const record = path.basename(result?.record ?? recordName);
      const which =
        changed.length === 1
          ? `'${path.relative('', changed[0] ?? '')}' is not what it was then`
          : 'none of its name is';
      const note = `The result in '${place}' is not drawn: its ${record} names another content of the scan, and ${which}`;
      stale.set(item, { note, paths: changed });
      continue;
    }
    const match = matchOf(item, [...candidates.values()]);
    if (!match) continue;
    if (isComplete || !match.scan) {
      found.set(item, match);
      continue;
    }
    const note = `The scan is ${pathOf(match.scan)}, found by ${isRecorded ? 'the record' : 'its name'}`;
    found.set(item, {
      scan: match.scan,
      notes: [note, ...match.notes],
      recorded: isRecorded ? note : undefined,
    });
  }
  return { found, stale };
}

/** Makes a function that opens the volumes at a path in the same way as those named by the user. */
export const openerOf =
  (itemsOf: (units: Awaited<ReturnType<typeof findVolumes>>) => Promise<Item[]>): OpenItems =>
  async (target) =>
    findVolumes([target]).then(itemsOf, () => []);
