import { realpathSync, statSync } from 'node:fs';
import path from 'node:path';
import type { Finding } from '../../client/case/index.js';
import { caseNameOf } from '../../client/case-names.js';
import type { FoundFiles, NamedUnit, Refused, Unit } from '../../client/found-files.js';
import type { Submission } from '../../client/submission.js';
import { orElse } from '../../files/index.js';
import { divideIntoCases } from './cases.js';
import { type Collected, type CollectOptions, collectUnits } from './collect.js';
import { type DataSet, findDataSet } from './data-set.js';
import { Obstacles } from './entries.js';
import { type Completed, checkNamesOfHalves, withMissingHalves } from './halves.js';
import { namesOf, wantedPath } from './names.js';
import { type Besides, notesOf } from './notes.js';
import { type Group, type Paired, pairGroups } from './pairing.js';
import { Selector } from './selection.js';

/** A group of paths, with the files that were found there. */
interface FoundGroup extends Group {
  readonly collected: Collected;
  readonly whole: Completed;
}

type Searched = Pick<Submission, 'files' | 'archive' | 'allFiles' | 'selection'> &
  Partial<Pick<Submission, 'operation'>>;

/**
 * Finds all files of a submission and the names under which they are sent.
 * @throws UsageError for files that cannot be sent
 */
export async function findFiles(submission: Searched, finding: Partial<Finding> = {}): Promise<FoundFiles> {
  const { output = null, isEach = false, skipsIncomplete = false } = finding;
  const { listsRefused = false, isListed = false } = finding;
  const damaged = new Obstacles('sent', isEach);
  const obstacles = new Obstacles();

  const collected = await collectGroups(submission, finding, damaged);
  const found: FoundGroup[] = [];
  for (const group of collected) {
    const whole = await withMissingHalves(group.collected.units, obstacles, isEach);
    found.push({ ...group, whole, units: nameUnits(whole, isEach ? null : obstacles) });
  }
  const { archive } = submission;
  const set = archive && (await findDataSet(archive.path, obstacles));
  if (output?.mayReplace) {
    const files = [...found.flatMap(({ units }) => units), ...(set ? [set] : [])].flatMap(filesOf);
    checkReplaceable(files, output.directory, obstacles);
  }

  const refused = [...damaged.all, ...obstacles.all];
  const groups = listsRefused ? withoutRefused(found, refused) : found;
  if (!listsRefused) for (const each of [damaged, obstacles]) each.check();

  const typed = new Set(submission.files.flatMap(({ groups: paths }) => paths.flat()));
  const paired = pairGroups(groups, typed, isEach, skipsIncomplete);
  const rest = [...paired.groups];
  const volumes = submission.files.map(({ field, groups: { length } }) => ({
    field,
    groups: rest.splice(0, length),
  }));

  const besides = besidesOf(groups, set, paired);
  const { skipped, copies, strays, followed, objects } = besides;
  return {
    volumes,
    dataSet: archive && set && { field: archive.field, set: { ...set, name: archiveName(set) } },
    cases: isEach ? divideIntoCases(volumes) : [],
    omitted: paired.omitted.map(caseNameOf),
    notes: notesOf(paired.groups.flat(), isListed, besides),
    refused,
    skipped,
    copies,
    strays,
    followed,
    objects,
  };
}

/** Collects what the paths of each group name. Damaged volumes are added to the obstacles. */
async function collectGroups(
  { operation, files, allFiles = false, selection }: Searched,
  { output, chooseSeries, describeApp, reporter, signal }: Partial<Finding>,
  obstacles: Obstacles,
): Promise<(Omit<Group, 'units'> & { readonly collected: Collected })[]> {
  const selector = new Selector(selection);
  // Ground truth and masks have different suffixes.
  const ofOthers = new Selector({ ...selection, suffixes: [] });
  const shared = {
    output: output?.directory ?? null,
    obstacles,
    allFiles,
    onRead: (done: number, total: number) => {
      signal?.throwIfAborted();
      reporter?.progress('Reading', done, total);
    },
  };
  const takesSegmentations = async (group: number) => {
    // Other operations work on segmentations that an app has made.
    if (operation && operation.paths !== 'inputs') return true;
    const app = await describeApp?.();
    return app?.available === true && Object.values(app.inputs)[group]?.volume_type === 'SEGMENTATION';
  };
  const found = [];
  for (const { field, groups } of files) {
    for (const [index, paths] of groups.entries()) {
      const collected = await collectUnits(paths, {
        ...shared,
        ...(field.role === 'paths'
          ? { selector, choose: chooseSeries, takesSegmentations: () => takesSegmentations(index) }
          : { selector: ofOthers, takesSegmentations: async () => true }),
      });
      found.push({ field, number: index + 1, collected });
    }
  }
  selector.check();
  return found;
}

/**
 * Assigns the names under which an app receives the files of a group.
 * @param obstacles collects the volumes that renaming would break; null if each case is sent separately
 */
function nameUnits(group: Completed, obstacles: Obstacles | null): NamedUnit[] {
  const { units, halves, faults } = group;
  const names = namesOf(units.map(wantedPath));
  const byUnit = new Map(units.map((unit, index) => [unit, names[index] ?? '']));
  const nameOf = (unit: Unit) => byUnit.get(unit) ?? '';
  if (obstacles) checkNamesOfHalves(group, nameOf, obstacles);
  const headersOf = new Map<Unit, string[]>();
  for (const { header, voxels } of halves) {
    for (const unit of voxels) headersOf.set(unit, [...(headersOf.get(unit) ?? []), header.path]);
  }
  return units.map((unit) => {
    const headers = headersOf.get(unit) ?? [];
    return { ...withFault(unit, faults), name: nameOf(unit), isHalf: headers.length > 0, headers };
  });
}

/** The paths of all files that are sent, including those in directories. */
function filesOf(source: Unit | DataSet): string[] {
  const files = 'files' in source ? source.files : null;
  return files ? files.map((file) => file.path) : [source.path];
}

/** An identifier of a directory, the same for all paths that lead to it; null if the directory does not exist. */
function identityOf(directory: string): string | null {
  const stats = statSync(directory, { bigint: true, throwIfNoEntry: false });
  return stats ? `${stats.dev}:${stats.ino}` : null;
}

/** Tells whether a directory is the wanted one or lies inside it, following links. */
function insideOf(wanted: string): (directory: string) => boolean {
  const known = new Map<string, boolean>();
  const isInside = (directory: string): boolean => {
    const found = known.get(directory);
    if (found !== undefined) return found;
    const above = path.dirname(directory);
    const isIn = identityOf(directory) === wanted || (above !== directory && isInside(above));
    known.set(directory, isIn);
    return isIn;
  };
  return isInside;
}

/** The paths of a file, with and without following a link at its end. Empty if the file is gone: sending it reports that. */
const placesOf = (file: string): string[] =>
  orElse(() => [path.join(realpathSync(path.dirname(file)), path.basename(file)), realpathSync(file)], []);

/**
 * Adds to the obstacles the files that a result could overwrite: those in the output directory. Apps name results after their
 * inputs, so the names would be the same.
 */
function checkReplaceable(files: readonly string[], output: string, obstacles: Obstacles): void {
  const wanted = identityOf(output);
  if (wanted === null) return;
  const isInside = insideOf(wanted);
  for (const file of files) {
    if (!placesOf(file).some((place) => isInside(path.dirname(place)))) continue;
    const why = 'is in the directory that results go to, where one of them could replace it; ';
    obstacles.add(file, `${why}name another directory with --output`);
  }
}

/** The groups without what cannot be sent. */
function withoutRefused(groups: readonly FoundGroup[], refused: readonly Refused[]): FoundGroup[] {
  const headers = groups.flatMap(({ whole }) => whole.incomplete);
  const bad = new Set([...refused, ...headers].map((each) => each.path));
  const isBad = ({ path: file, headers }: NamedUnit) =>
    bad.has(file) || headers.some((header) => bad.has(header));
  return groups.map((group) => ({ ...group, units: group.units.filter((unit) => !isBad(unit)) }));
}

/** What was found besides the volumes, for all groups together. */
function besidesOf(
  groups: readonly FoundGroup[],
  set: DataSet | null,
  { pairings, incomplete }: Paired,
): Besides {
  const found = groups.map(({ collected }) => collected);
  const tree = set && set.files !== null ? set : { strays: [], followed: [] };
  const sources = [...groups.flatMap(({ units }) => units), ...(set ? [set] : [])];
  const sent = new Set(
    sources.flatMap((each) => [each.path, ...filesOf(each)]).map((each) => path.resolve(each)),
  );
  const isSent = (file: string) => sent.has(path.resolve(file));
  const followed = [...found, ...groups.map(({ whole }) => whole), tree].flatMap((each) => each.followed);
  const links = new Map(followed.map((each) => [each.path, each]));
  return {
    // On its own, the voxel file of a header has no known format.
    skipped: found.flatMap((each) => each.skipped).filter((each) => !isSent(each)),
    copies: found.flatMap((each) => each.copies),
    repeated: found.flatMap((each) => each.repeated),
    strays: [...found, tree].flatMap((each) => each.strays),
    followed: [...links.values()].filter((each) => isSent(each.path)),
    objects: found.flatMap((each) => each.objects),
    unknown: found.flatMap((each) => each.unknown),
    headless: groups.flatMap(({ whole }) => whole.headless),
    incomplete,
    pairings,
  };
}

function archiveName(set: DataSet): string {
  const name = path.basename(path.resolve(set.path));
  return set.files === null ? name : `${name}.zip`;
}

/**
 * Finds the volumes at paths without sending them: files, DICOM series and segmentations, `.zarr` stores. A header and its voxel
 * files are one volume.
 * @param options.output where results go: directories are not searched for earlier results, unless a path names them
 * @throws UsageError for files that cannot be read, and for paths without a volume
 */
export async function findVolumes(
  paths: readonly string[],
  options: Pick<CollectOptions, 'output' | 'onRead'> = {},
): Promise<readonly Unit[]> {
  const obstacles = new Obstacles('shown');
  const { units } = await collectUnits(paths, {
    ...options,
    obstacles,
    takesSegmentations: async () => true,
  });
  obstacles.check();
  // Missing voxels are reported when the volume is opened. Voxel files that may not leave are not opened.
  const { halves, faults } = await withMissingHalves(units, new Obstacles('shown'));
  const isListed = new Set(halves.flatMap((each) => each.voxels.map((unit) => path.resolve(unit.path))));
  return units.flatMap((unit) => {
    const place = path.resolve(unit.path);
    if (isListed.has(place)) return [];
    // Several series may lie in one directory.
    if (unit.kind !== 'series') isListed.add(place);
    return [withFault(unit, faults)];
  });
}

function withFault(unit: Unit, faults: Completed['faults']): Unit {
  if (unit.kind !== 'file') return unit;
  const fault = faults.get(path.resolve(unit.path)) ?? unit.doubt;
  return fault === undefined ? unit : { ...unit, fault };
}
