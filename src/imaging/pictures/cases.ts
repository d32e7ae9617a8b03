import path from 'node:path';
import { openSeries, openVolume, VolumeError, type VolumeFile } from '@remote-app/volumes';
import type { Unit } from '../../client/found-files.js';
import { quotePath, resultName } from '../../contract/index.js';
import { foldedName } from '../../files/index.js';
import { findVolumes, groupBy, namesOf, withoutVolumeEnding } from '../inputs/index.js';
import {
  type Draft,
  type Item,
  namedBy,
  openerOf,
  organGroups,
  organsOf,
  pair,
  RecordedScans,
  recordOf,
  resultOf,
} from '../matching/index.js';
import type { CaseToShow, Layer } from './case-to-show.js';
import { type Looks, looksOf } from './looks.js';
import { rowsOf, withRows } from './table-rows.js';

/** Opens a unit; returns a sentence if it cannot be read. */
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
      ...namedBy(unit.path, name),
      ...{ file, name },
      isMask: kind !== 'continuous',
      isBinary: kind === 'binary',
      isOfResult: resultOf(unit.path) !== null,
    });
  }
  return items;
}

/** A volume that looks like a segmentation counts as a scan if the record of a result names it as its input. */
async function withRecordedScans(items: readonly Item[]): Promise<Item[]> {
  const results = items.filter(({ isOfResult }) => isOfResult);
  const scans = new RecordedScans(results.map(({ file }) => file.path));
  return Promise.all(
    items.map(async (item) =>
      item.isMask && !item.isOfResult && (await scans.has(item.file.path))
        ? { ...item, isMask: false, isBinary: false }
        : item,
    ),
  );
}

/** Combines masks of single organs of one patient into one segmentation. */
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

/**
 * The names of the cases: from the table, otherwise from the scan or the result. Cases with the same name get the parts by which
 * their folders differ.
 */
function namesOfDrafts(drafts: readonly Draft[]): string[] {
  const after = drafts.map(({ scan, masks, maps }) => scan ?? masks[0] ?? maps[0]);
  const names = drafts.map(({ inTables }, at) => inTables[0]?.name ?? after[at]?.name ?? '');
  const wanted = [...names];
  for (const group of groupBy([...names.keys()], (at) => foldedName(names[at] ?? ''))) {
    // Table rows are joined by name, so a name from a table is not changed.
    const free = group.filter((at) => group.length > 1 && !drafts[at]?.inTables[0]);
    const distinct = namesOf(free.map((at) => after[at]?.file.path ?? ''));
    for (const [index, at] of free.entries()) wanted[at] = withoutVolumeEnding(distinct[index] ?? '');
  }
  return wanted;
}

const noUnits = { inputs: null, outputs: null };

/** The layers of a case, by name; by path if names are not unique. */
function layersOf(items: readonly Item[]): Layer[] {
  const names = items.map(({ name }) => name);
  const isShared = names.length !== new Set(names).size;
  return items.map(({ file, name }) => {
    const { labels: terminology = {}, units = noUnits } = recordOf(resultOf(file.path)) ?? {};
    return { file, name: isShared ? path.relative('', file.path) : name, terminology, units };
  });
}

const caseOf = ({ scan, masks, maps, notes, recorded }: Draft, name: string): CaseToShow => ({
  name,
  scan: scan?.file ?? null,
  masks: layersOf(masks),
  maps: layersOf(maps),
  notes,
  recorded,
  status: null,
});

export interface FindCasesOptions {
  readonly output?: string | null;
  /** Ends the reading. */
  readonly signal?: AbortSignal | undefined;
  readonly onRead?: (done: number, total: number) => void;
}

/**
 * Finds which scans and results belong together among files and directories in any order: by the parts in which their names and
 * folders differ, and by their grids if these leave a doubt. If no path is a scan, the scan is searched for beside the result and
 * in the current directory. Table cases without a result that can be drawn are included.
 * @param options.output where results go: directories are not searched for earlier results, unless a path names them
 * @param options.onRead called as files are read to recognise them
 * @returns the cases in the order of the paths, and a sentence for each volume that cannot be read
 * @throws UsageError for paths that do not exist or contain no volume, VolumeError if no volume can be read
 */
export async function findCasesToShow(
  paths: readonly string[],
  options: FindCasesOptions = {},
): Promise<{ readonly cases: readonly CaseToShow[]; readonly problems: readonly string[] }> {
  const problems: string[] = [];
  const rows = rowsOf(paths);
  const units = await findVolumes(paths, options).catch((error: unknown) => {
    // If all cases of a table failed, there are rows but no volumes.
    if (rows.length === 0) throw error;
    return [];
  });
  const items = withOrgans(await withRecordedScans(await itemsOf(units, problems, options.signal)));
  if (items.length === 0 && rows.length === 0)
    throw new VolumeError(problems[0] ?? 'There is no volume to show.');
  const drafts = await pair(
    items,
    openerOf((found) => itemsOf(found, [], options.signal)),
  );
  const names = namesOfDrafts(drafts);
  const cases = drafts.map((draft, at) => caseOf(draft, names[at] ?? ''));
  return { cases: withRows(cases, drafts, rows), problems };
}
