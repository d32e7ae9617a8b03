import path from 'node:path';
import { quoteName, quotePath } from '../../contract/index.js';
import { firstBytes, foldedName } from '../../files/index.js';
import { headerNamesOf, isPairVoxels, pairStem, voxelFilesOf } from '../../volumes/headers/index.js';
import type { Unit } from './collect.js';
import { emptyFile, lookAt, type Obstacles } from './entries.js';
import { formatNameOf } from './formats.js';

/** A header, and the files that have its voxels. */
interface Halves {
  readonly header: Unit;
  readonly voxels: readonly Unit[];
}

/** The volumes of one group, with all files that they consist of. */
export interface Completed {
  readonly units: readonly Unit[];
  readonly halves: readonly Halves[];
  /** Paths of `.img` files without a header beside them. */
  readonly headless: readonly string[];
}

const beside = (unit: Unit, name: string): string => path.join(path.dirname(unit.path), name);

/** The files of one group, by their locations. */
class Group {
  #known: Map<string, Unit> | undefined;

  constructor(
    private readonly units: readonly Unit[],
    private readonly obstacles: Obstacles,
  ) {}

  /** Built when the first one is needed: most groups have no halves, but may have thousands of files. */
  get #byPlace(): Map<string, Unit> {
    this.#known ??= new Map(this.units.map((unit) => [path.resolve(unit.path), unit]));
    return this.#known;
  }

  /** The first of these files that is in the group; otherwise the first that can be added, marked as `isNew`. */
  find(targets: readonly string[]): { readonly unit: Unit; readonly isNew: boolean } | 'refused' | null {
    for (const target of targets) {
      const unit = this.#byPlace.get(path.resolve(target));
      if (unit) return { unit, isNew: false };
    }
    for (const target of targets) {
      const look = lookAt(target);
      if (!look || look.stats?.isDirectory()) continue;
      const fault = look.stats?.size === 0 ? emptyFile : look.fault;
      if (fault !== null) {
        this.obstacles.add(target, fault);
        return 'refused';
      }
      const unit: Unit = {
        kind: 'file',
        path: target,
        size: look.stats?.size ?? 0,
        format: formatNameOf(target),
      };
      this.#byPlace.set(path.resolve(target), unit);
      return { unit, isNew: true };
    }
    return null;
  }
}

/** Adds the headers of `.img` files that are named without them. */
function withHeaders(units: readonly Unit[], obstacles: Obstacles): { units: Unit[]; headless: Unit[] } {
  const group = new Group(units, obstacles);
  const headless: Unit[] = [];
  const all = units.flatMap((unit) => {
    if (unit.kind !== 'file' || !isPairVoxels(unit.path)) return [unit];
    const header = group.find(headerNamesOf(unit.path));
    if (header === null) headless.push(unit);
    return header !== null && header !== 'refused' && header.isNew ? [header.unit, unit] : [unit];
  });
  return { units: all, headless };
}

/**
 * Adds to the volumes of a group the files that belong to them: the voxels of a header, and the header of voxels, from
 * the directory in which the other one is. A volume that cannot arrive complete is an obstacle: files are sent without
 * their directories, so an app might take half of another volume for the missing half.
 */
export function completed(found: readonly Unit[], obstacles: Obstacles): Completed {
  const { units: given, headless } = withHeaders(found, obstacles);
  const group = new Group(given, obstacles);
  const halves: Halves[] = [];
  const units = given.flatMap((header) => {
    const read = (most: number) => firstBytes(header.path, most);
    const wanted = (header.kind === 'file' && voxelFilesOf(header.path, read)) || [];
    const voxels: Unit[] = [];
    const added: Unit[] = [];
    for (const [first = '', ...others] of wanted) {
      const name = first.replace(/^(\.[/\\])+/, '');
      if (/[/\\]/.test(name)) {
        const why = `has its voxels in ${quotePath(first)}, and files are sent without their directories; `;
        obstacles.add(header.path, `${why}put both into one directory, with the name alone in the header`);
        return [header];
      }
      const found = group.find([name, ...others].map((each) => beside(header, each)));
      if (found === null) {
        const why = `has its voxels in ${quoteName(name)}, which is not beside it; put it there, or leave the header out`;
        obstacles.add(header.path, why);
      }
      if (found === null || found === 'refused') return [header];
      voxels.push(found.unit);
      if (found.isNew) added.push(found.unit);
    }
    if (voxels.length > 0) halves.push({ header, voxels });
    return [header, ...added];
  });
  const voxels = new Set(halves.flatMap((each) => each.voxels));
  return { units, halves, headless: headless.filter((unit) => !voxels.has(unit)).map((unit) => unit.path) };
}

/** Whether an app finds the voxels of a header under the names that both files get. */
function areTogether(header: Unit, voxels: Unit, nameOf: (unit: Unit) => string): boolean {
  const stem = pairStem(path.basename(header.path));
  if (stem === null) return nameOf(voxels) === path.basename(voxels.path);
  return pairStem(nameOf(header)) === pairStem(nameOf(voxels));
}

/** Adds to the obstacles the volumes whose halves would not find each other by the names under which they are sent. */
export function checkHalves(
  { units, halves }: Completed,
  nameOf: (unit: Unit) => string,
  obstacles: Obstacles,
): void {
  for (const { header, voxels } of halves) {
    const strayed = voxels.find((each) => !areTogether(header, each, nameOf));
    if (!strayed) continue;
    const why =
      `has its voxels in ${quoteName(path.basename(strayed.path))}, which would be sent as ` +
      `${quoteName(nameOf(strayed))}, since another file has its name; send them with separate commands, or give them ` +
      'different names, inside their headers as well';
    obstacles.add(header.path, why);
  }
  const placeOf = (unit: Unit) => path.dirname(path.resolve(unit.path));
  const headers = new Map<string, Unit>();
  for (const unit of units) {
    const stem = pairStem(nameOf(unit));
    if (stem !== null && !isPairVoxels(nameOf(unit))) headers.set(foldedName(stem), unit);
  }
  for (const unit of units) {
    const stem = isPairVoxels(nameOf(unit)) ? pairStem(nameOf(unit)) : null;
    const header = stem === null ? undefined : headers.get(foldedName(stem));
    if (!header || placeOf(header) === placeOf(unit)) continue;
    const why = `would be taken for the voxels of ${quotePath(header.path)}, which is in another directory; `;
    obstacles.add(unit.path, `${why}send them with separate commands, or rename one`);
  }
}
