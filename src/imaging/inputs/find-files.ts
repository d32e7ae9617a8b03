import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import type { Submission } from '../../client/submission.js';
import { type Field, quotePath } from '../../contract/index.js';
import { type ChooseSeries, type CollectOptions, collectUnits } from './collect.js';
import { type DataSet, findDataSet } from './data-set.js';
import { Obstacles, type Refused, someOf } from './entries.js';
import { isWholeVolumeName } from './formats.js';
import { type Completed, checkHalves, completed } from './halves.js';
import { refuseIncomplete, withoutIncomplete } from './incomplete.js';
import type { Followed } from './leaving.js';
import { namesOf, type Pairing, pairGroups, plainName, withoutHalves } from './names.js';
import { checkReplaceable } from './replaceable.js';
import { Selector } from './selection.js';
import type { Collected, Unit } from './unit.js';

/** A volume, or a data set, and the name by which the app gets it; of a data set, the name of the archive. */
type Named<T> = T & { readonly name: string };

export type NamedUnit = Named<Unit> & {
  /** Whether it has the voxels of another file of its group, which is its header. */
  readonly isHalf: boolean;
  /** Paths of the headers whose voxels it has. */
  readonly headers: readonly string[];
};
export type NamedDataSet = Named<DataSet>;

/** Where results go. */
export interface ResultPlace {
  /** Its content is not sent along with a directory that contains it. */
  readonly directory: string;
  /** Whether a result replaces files of the same names: none of them may be an input. */
  readonly mayReplace: boolean;
}

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

/** What a submission sends, before anything is packed. */
export interface FoundFiles extends Omit<Collected, 'units'> {
  readonly volumes: readonly { readonly field: Field; readonly groups: readonly (readonly NamedUnit[])[] }[];
  readonly dataSet: { readonly field: Field; readonly set: NamedDataSet } | null;
  /** Files that are sent although their header is not there. */
  readonly headless: readonly string[];
  /** Which cases are left out because they lack a file of a group, in sentences. */
  readonly incomplete: readonly string[];
  /** Groups whose file pairing is reported to the person. */
  readonly pairings: readonly Pairing[];
  /** What cannot be sent, if that was asked for. */
  readonly refused: readonly Refused[];
}

/** Headers that name, in their content, the file that has their voxels. */
const detachedHeader = /\.(mhd|nhdr)$/i;

/** The path whose last part is the name that a unit should have. */
export const wantedPath = (unit: Unit): string =>
  unit.kind === 'series' ? path.join(unit.path, '..', unit.wanted) : unit.path;

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

/** How files are found. */
export interface FindOptions {
  /** Where results go; null if there are none. */
  readonly place?: ResultPlace | null;
  /** Chooses among the series of a directory; without it all of them are sent. */
  readonly chooseSeries?: ChooseSeries | undefined;
  /** Whether the app asks for segmentations in this group of inputs, counted from 0. Without it, it does not. */
  readonly asksForSegmentations?: (group: number) => Promise<boolean>;
  /** Called while the beginnings of many files are read. */
  readonly onRead?: (done: number, total: number) => void;
  /**
   * Whether each case is sent by itself: files of one name in two cases then do not get into each other's way, and a file that
   * cannot be sent has its `fault`.
   */
  readonly isEach?: boolean;
  /** Whether what cannot be sent is listed beside what can, in `refused`, and is no error. */
  readonly listsRefused?: boolean;
  /** With `isEach`, whether cases that lack a file of a group are left out. */
  readonly skipsIncomplete?: boolean;
}

/**
 * Finds all files of a submission and the names under which they are sent.
 * @throws UsageError for what cannot be sent
 */
export async function findFiles(
  submission: Pick<Submission, 'files' | 'archive' | 'allFiles' | 'selection'>,
  options: FindOptions = {},
): Promise<FoundFiles> {
  const { place = null, chooseSeries, asksForSegmentations, onRead, isEach = false } = options;
  const { skipsIncomplete = false } = options;
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
        selector: isOfImages ? selector : ofOthers,
        choose,
        onRead,
        takesSegmentations: async () => !isOfImages || ((await asksForSegmentations?.(index)) ?? false),
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
  if (options.listsRefused) {
    const bad = new Set([...refused, ...incomplete].map((each) => each.path));
    for (const [at, units] of named.entries()) named[at] = units.filter((unit) => !isPartOf(unit, bad));
  } else {
    damaged.check();
    obstacles.check();
  }
  const dataSet = archive && set && { field: archive.field, set: { ...set, name: archiveName(set) } };
  const typed = new Set(submission.files.flatMap(({ groups }) => groups.flat()));
  const { groups: complete, lacking } = withoutIncomplete(
    submission.files
      .flatMap(({ field, groups }) => groups.map((_, index) => ({ field, number: index + 1 })))
      .map((each, index) => ({ ...each, units: named[index] ?? [] })),
  );
  const { groups: paired, pairings } = pairGroups(skipsIncomplete ? complete : named);
  const areUneven = isEach && new Set(named.map((group) => withoutHalves(group).length)).size > 1;
  const isDoubtful = pairings.some((pairing) => !isTyped(pairing, typed));
  if (!skipsIncomplete && (areUneven || isDoubtful)) refuseIncomplete(lacking, isEach);
  for (const pairing of pairings) checkPairing(pairing, typed);
  const rest = [...paired];
  const volumes = submission.files.map(({ field, groups }) => ({
    field,
    groups: rest.splice(0, groups.length),
  }));
  // On its own, the voxel file of a header has no known format.
  const sent = new Set(named.flat().map((unit) => path.resolve(unit.path)));
  const skipped = found.flatMap((each) => each.skipped).filter((each) => !sent.has(path.resolve(each)));
  const objects = found.flatMap((each) => each.objects);
  const unknown = found.flatMap((each) => each.unknown);
  const copies = found.flatMap((each) => each.copies);
  const strays = [...found.flatMap((each) => each.strays), ...(treeOf(set)?.strays ?? [])];
  const all = new Set(
    [...named.flat(), ...(set ? [set] : [])].flatMap((each) => [each.path, ...filesOf(each)]),
  );
  const links = new Map([...followed, ...(treeOf(set)?.followed ?? [])].map((each) => [each.path, each]));
  return {
    volumes,
    dataSet,
    skipped,
    copies,
    strays,
    followed: [...links.values()].filter((each) => all.has(each.path)),
    objects,
    unknown,
    headless,
    incomplete: skipsIncomplete ? lacking : [],
    pairings,
    refused,
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
