import path from 'node:path';
import type { Finding } from '../../client/case/index.js';
import { UsageError } from '../../client/errors.js';
import type { FoundFiles, NamedUnit, Unit } from '../../client/found-files.js';
import type { Submission } from '../../client/submission.js';
import { quotePath, someOf } from '../../contract/index.js';
import { divideIntoCases } from './cases.js';
import { type CollectOptions, collectUnits } from './collect.js';
import { type DataSet, findDataSet } from './data-set.js';
import { Obstacles } from './entries.js';
import { isWholeVolumeName } from './formats.js';
import { type Completed, checkHalves, completed } from './halves.js';
import { areOfDifferent, pairCases, refuseIncomplete } from './incomplete.js';
import type { Followed } from './leaving.js';
import { namesOf, type Pairing, pairGroups, plainName, wantedPath, withoutHalves } from './names.js';
import { notesOf } from './notes.js';
import { checkReplaceable } from './replaceable.js';
import { Selector } from './selection.js';
import type { Collected } from './unit.js';

/** Whether files are paired by their names, or in the order in which a person typed them. */
const isTyped = ({ by, groups }: Pairing, typed: ReadonlySet<string>): boolean =>
  by === 'name' || groups.flat().every((each) => typed.has(each));

/**
 * Refuses groups whose files were found in directories if their names do not show which belong together: paired by order,
 * predictions would be compared with the ground truth of other cases. If a person typed the order, it is taken as
 * intended.
 * @throws UsageError with both lists
 */
function checkPairing(pairing: Pairing, typed: ReadonlySet<string>): void {
  const { by, groups } = pairing;
  const [first, second] = groups;
  if (isTyped(pairing, typed)) return;
  const why =
    by === 'count'
      ? `they have ${first.length} and ${second.length} files`
      : 'their names do not say which files belong together';
  throw new UsageError(
    `Two groups of files cannot be paired, since ${why}: ${someOf(first.map((each) => quotePath(each)))} with ` +
      `${someOf(second.map((each) => quotePath(each)))}; ` +
      'give the files of a case the same names in both, or name all files in the order in which they belong together',
  );
}

/** @throws UsageError for files at one position of two groups that are of different people or sessions, unless a person typed both */
function checkPersons(groups: readonly (readonly NamedUnit[])[], typed: ReadonlySet<string>): void {
  const [first = [], ...others] = groups.map((group) => withoutHalves(group));
  for (const group of others.filter(({ length }) => length === first.length)) {
    const at = first.findIndex((unit, index) => {
      const other = group[index];
      return other && areOfDifferent(unit, other) && !(typed.has(unit.path) && typed.has(other.path));
    });
    if (at >= 0)
      throw new UsageError(
        `${quotePath(first[at]?.path ?? '')} and ${quotePath(group[at]?.path ?? '')} are of different subjects or sessions, and would be ` +
          'one case; name both files, if they belong together',
      );
  }
}

/** Headers that name, in their content, the file that has their voxels. */
const detachedHeader = /\.(mhd|nhdr)$/i;

function nameUnits(group: Completed, obstacles: Obstacles): NamedUnit[] {
  const { units, halves } = group;
  const names = namesOf(units.map(wantedPath));
  const byUnit = new Map(units.map((unit, index) => [unit, names[index] ?? '']));
  const nameOf = (unit: Unit) => byUnit.get(unit) ?? '';
  const headers = new Set(halves.map((each) => each.header));
  const headersOf = new Map<Unit, string[]>();
  for (const { header, voxels } of halves) {
    for (const unit of voxels) headersOf.set(unit, [...(headersOf.get(unit) ?? []), header.path]);
  }
  for (const unit of units) {
    // It is ambiguous which file has its voxels: one of those that would be renamed.
    if (headers.has(unit) || !detachedHeader.test(unit.path) || nameOf(unit) === plainName(unit.path))
      continue;
    const why =
      'shares its name with another file and says inside which file has its voxels, so neither can be renamed; ' +
      'give them different names, or make one file of each (.mha, .nrrd)';
    obstacles.add(unit.path, why);
  }
  checkHalves(group, nameOf, obstacles);
  return units.map((unit) => {
    const headers = headersOf.get(unit) ?? [];
    return { ...unit, name: nameOf(unit), isHalf: headers.length > 0, headers };
  });
}

/** The paths of all files that are sent, including those in directories. */
function filesOf(source: Unit | DataSet): string[] {
  const files = 'files' in source ? source.files : null;
  return files ? files.map((file) => file.path) : [source.path];
}

function archiveName(set: DataSet): string {
  const name = path.basename(path.resolve(set.path));
  return set.files === null ? name : `${name}.zip`;
}

/**
 * Finds all files of a submission and the names under which they are sent.
 * @throws UsageError for what cannot be sent
 */
export async function findFiles(
  submission: Pick<Submission, 'files' | 'archive' | 'allFiles' | 'selection'>,
  finding: Partial<Finding> = {},
): Promise<FoundFiles> {
  const { place = null, chooseSeries, takesSegmentations, isEach = false, isListed = false } = finding;
  const { skipsIncomplete = false, listsRefused = false, reporter, signal } = finding;
  const onRead = (done: number, total: number) => {
    signal?.throwIfAborted();
    reporter?.progress('Reading', done, total);
  };
  const output = place?.directory ?? null;
  const { archive, allFiles = false } = submission;
  const selector = new Selector(submission.selection);
  // Ground truth and masks have suffixes of their own.
  const ofOthers = new Selector({ ...submission.selection, suffixes: [] });
  // With `isEach`, a damaged volume fails alone; what concerns several files stops everything.
  const damaged = new Obstacles('sent', isEach ? isWholeVolumeName : undefined);
  const obstacles = new Obstacles();
  const found: Collected[] = [];
  const headless: string[] = [];
  const followed: Followed[] = [];
  const named: NamedUnit[][] = [];
  const incomplete: Unit[] = [];
  for (const { field, groups } of submission.files) {
    // Images to work on; the other groups are ground truth and masks.
    const isOfImages = field.role === 'paths';
    const choose = isOfImages ? chooseSeries : undefined;
    for (const [index, group] of groups.entries()) {
      const collected = await collectUnits(group, {
        output,
        obstacles: damaged,
        allFiles,
        failsAlone: isEach,
        selector: isOfImages ? selector : ofOthers,
        choose,
        onRead,
        takesSegmentations: async () => !isOfImages || ((await takesSegmentations?.(index)) ?? false),
      });
      found.push(collected);
      const whole = await completed(collected.units, obstacles, isEach);
      const faults = faultsOf(whole.refused);
      followed.push(...collected.followed, ...whole.followed);
      headless.push(...whole.headless);
      incomplete.push(...whole.refused.map(({ header }) => header));
      // Names may clash with those of other cases if each case is sent by itself.
      const units = nameUnits(whole, isEach ? new Obstacles() : obstacles);
      named.push(isEach ? units.map((unit) => ({ ...unit, ...withFault(unit, faults) })) : units);
    }
  }
  const set = archive && (await findDataSet(archive.path, obstacles));
  if (place?.mayReplace) {
    const files = [...named.flat(), ...(set ? [set] : [])].flatMap(filesOf);
    checkReplaceable(files, place.directory, obstacles);
  }
  selector.check();
  const refused = [...damaged.all, ...obstacles.all];
  if (listsRefused) {
    const bad = new Set([...refused, ...incomplete].map((each) => each.path));
    for (const [at, units] of named.entries()) named[at] = units.filter((unit) => !isPartOf(unit, bad));
  } else {
    damaged.check();
    obstacles.check();
  }
  const dataSet = archive && set && { field: archive.field, set: { ...set, name: archiveName(set) } };
  const typed = new Set(submission.files.flatMap(({ groups }) => groups.flat()));
  const fielded = submission.files
    .flatMap(({ field, groups }) => groups.map((_, index) => ({ field, number: index + 1 })))
    .map((each, index) => ({ ...each, units: named[index] ?? [] }));
  const { groups: complete, lacking } = pairCases(fielded, typed);
  const { groups: paired, pairings } = isEach ? { groups: complete, pairings: [] } : pairGroups(named);
  // Where no names match, both lists of one job are shown.
  const isPartial = (complete[0]?.length ?? 0) > 0 && pairings.some((pairing) => !isTyped(pairing, typed));
  if (!skipsIncomplete && (isEach || isPartial)) refuseIncomplete(lacking, isEach);
  if (isEach && paired[0]?.length === 0 && lacking.length > 0)
    throw new UsageError(`No case has a file in each group: ${lacking.join('; ')}`);
  for (const pairing of pairings) checkPairing(pairing, typed);
  if (!isEach) checkPersons(paired, typed);
  const rest = [...paired];
  const volumes = submission.files.map(({ field, groups }) => ({
    field,
    groups: rest.splice(0, groups.length),
  }));
  // On its own, the voxel file of a header has no known format.
  const sent = new Set(named.flat().map((unit) => path.resolve(unit.path)));
  const skipped = found.flatMap((each) => each.skipped).filter((each) => !sent.has(path.resolve(each)));
  const all = new Set(
    [...named.flat(), ...(set ? [set] : [])].flatMap((each) => [each.path, ...filesOf(each)]),
  );
  const links = new Map([...followed, ...(treeOf(set)?.followed ?? [])].map((each) => [each.path, each]));
  const besides = {
    skipped,
    copies: found.flatMap((each) => each.copies),
    repeated: found.flatMap((each) => each.repeated),
    strays: [...found.flatMap((each) => each.strays), ...(treeOf(set)?.strays ?? [])],
    followed: [...links.values()].filter((each) => all.has(each.path)),
    objects: found.flatMap((each) => each.objects),
    unknown: found.flatMap((each) => each.unknown),
    headless,
    incomplete: skipsIncomplete ? lacking : [],
    pairings,
  };
  const units = volumes.flatMap(({ groups }) => groups.flat());
  return {
    volumes,
    dataSet,
    cases: isEach ? divideIntoCases(volumes) : [],
    notes: notesOf(units, isListed, besides),
    refused,
    ...besides,
  };
}

/** Whether a unit is one of these paths, or the voxels of one. */
const isPartOf = (unit: NamedUnit, paths: ReadonlySet<string>): boolean =>
  paths.has(unit.path) || unit.headers.some((header) => paths.has(header));

const treeOf = (set: DataSet | null | undefined | false) => (set && set.files !== null ? set : null);

/**
 * Finds the volumes of paths without sending them: files, DICOM series and segmentations, `.zarr` stores. A header and the
 * files that have its voxels are one volume.
 * @param options.output where results go: directories are not searched for earlier ones, unless a path names them
 * @throws UsageError for what cannot be read, and for paths without a volume
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
  // Whoever opens a volume reports what it lacks, but does not open what may not leave.
  const { halves, refused } = await completed(units, new Obstacles('shown'));
  const faults = faultsOf(refused);
  const isListed = new Set(halves.flatMap((each) => each.voxels.map((unit) => path.resolve(unit.path))));
  return units.flatMap((unit) => {
    const place = path.resolve(unit.path);
    if (isListed.has(place)) return [];
    // Several series may lie in one directory.
    if (unit.kind !== 'series') isListed.add(place);
    return [withFault(unit, faults)];
  });
}

/** Why headers cannot be sent whose voxels do not leave, and these files themselves, by their paths. */
const faultsOf = (refused: Completed['refused']): ReadonlyMap<string, string> =>
  new Map(
    refused.flatMap(({ header, file, why }) => [
      [path.resolve(file), why] as const,
      [path.resolve(header.path), `has its voxels in ${quotePath(file)}, which ${why}`] as const,
    ]),
  );

function withFault(unit: Unit, faults: ReadonlyMap<string, string>): Unit {
  if (unit.kind !== 'file') return unit;
  const fault = faults.get(path.resolve(unit.path)) ?? unit.doubt;
  return fault === undefined ? unit : { ...unit, fault };
}
