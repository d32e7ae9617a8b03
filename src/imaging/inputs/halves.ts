import { lstatSync } from 'node:fs';
import { realpath } from 'node:fs/promises';
import path from 'node:path';
import {
  type DataLayout,
  dataLayoutOf,
  headerNamesOf,
  isPairVoxels,
  pairStem,
  voxelFilesOf,
} from '@remote-app/volumes/headers';
import type { Unit } from '../../client/found-files.js';
import { quoteName, quotePath } from '../../contract/index.js';
import { firstBytes, foldedName } from '../../files/index.js';
import { emptyFile, lookAt, type Obstacles } from './entries.js';
import { formatNameOf } from './formats.js';
import { plainName } from './names.js';
import { volumeFault } from './recognise.js';
import { type Followed, verdictOn } from './sending-rules.js';

/** A header and its voxel files. */
interface Halves {
  readonly header: Unit;
  readonly voxels: readonly Unit[];
}

/** The volumes of one group, with all their files. */
export interface Completed {
  readonly units: readonly Unit[];
  readonly halves: readonly Halves[];
  /** Paths of `.img` files without a header beside them. */
  readonly headless: readonly string[];
  /** Links to data files that were followed out of the named directories. */
  readonly followed: readonly Followed[];
  /** Headers whose voxel files cannot be sent. */
  readonly incomplete: readonly Unit[];
  /** Why headers and voxel files cannot be sent, by absolute path. Each text is worded to follow the path. */
  readonly faults: ReadonlyMap<string, string>;
}

const beside = (unit: Unit, name: string): string => path.join(path.dirname(unit.path), name);

/** A file of a group, and whether it was added to it; null if there is none, or `refused` if it cannot be sent. */
type Found = { readonly unit: Unit; readonly isNew: boolean } | 'refused' | null;
type Find = (targets: readonly string[], base: string | undefined) => Found;

/** Finds the first of some files that is in the group; otherwise the first that can be added to it. */
function finderIn(units: readonly Unit[], obstacles: Obstacles): Find {
  let known: Map<string, Unit> | undefined;
  return (targets, base) => {
    // Built when it is first needed: most groups have no halves, but may have thousands of files.
    known ??= new Map(units.map((unit) => [path.resolve(unit.path), unit]));
    for (const target of targets) {
      const unit = known.get(path.resolve(target));
      if (unit) return { unit, isNew: false };
    }
    for (const target of targets) {
      const look = lookAt(target);
      if (!look || look.stats?.isDirectory()) continue;
      const size = look.stats?.size ?? 0;
      const fault = look.stats && size === 0 ? emptyFile : look.fault;
      if (fault !== null) {
        obstacles.add(target, fault);
        return 'refused';
      }
      const format = formatNameOf(target);
      const unit: Unit = { kind: 'file', path: target, size, format, ...(base !== undefined && { base }) };
      known.set(path.resolve(target), unit);
      return { unit, isNew: true };
    }
    return null;
  };
}

/** A header with a voxel file that cannot be sent, and the reason, worded to follow the path of that file. */
interface Refused {
  readonly header: Unit;
  readonly file: string;
  readonly why: string;
}

/**
 * Completes the volumes of a group with files from the same directory: voxel files after their headers, and headers of voxel
 * files. A volume that would arrive incomplete is an obstacle: files are sent without their directories, so an app might take
 * half of another volume for the missing half.
 * @param failsAlone whether a file that cannot be sent fails only its own case, instead of being an obstacle
 */
export async function withMissingHalves(
  found: readonly Unit[],
  obstacles: Obstacles,
  failsAlone = false,
): Promise<Completed> {
  const find = finderIn(found, obstacles);
  const headless: Unit[] = [];
  const given = found.flatMap((unit) => {
    if (unit.kind !== 'file' || !isPairVoxels(unit.path)) return [unit];
    const header = find(headerNamesOf(unit.path), unit.base);
    if (header === null) headless.push(unit);
    return header !== null && header !== 'refused' && header.isNew ? [header.unit, unit] : [unit];
  });
  const halves: Halves[] = [];
  const followed: Followed[] = [];
  const refused: Refused[] = [];
  const refuse = (header: Unit, file: string, why: string) => {
    refused.push({ header, file, why });
    if (!failsAlone) obstacles.add(file, why);
  };

  /** Whether a file that only a header names may not leave. */
  const isRefused = async (header: Unit, file: string, layout: DataLayout | null, count: number) => {
    const named = header.kind === 'file' ? header.root : undefined;
    const root = named ?? (await realpath(path.dirname(header.path)));
    const isLink = lstatSync(file).isSymbolicLink();
    const verdict = await verdictOn({ role: 'data', path: file, isLink, root, layout, count });
    if (!verdict.leaves) refuse(header, file, verdict.why);
    else if (verdict.target !== null) followed.push({ path: file, target: verdict.target });
    return !verdict.leaves;
  };

  /** Finds the voxels of a unit, if it is a header. Missing or faulty voxels are an obstacle. */
  const join = async (header: Unit): Promise<void> => {
    const read = (max: number) => firstBytes(header.path, max);
    const wanted = (header.kind === 'file' && voxelFilesOf(header.path, read)) || [];
    if (wanted.length === 0) return;
    const [layout, count] = [dataLayoutOf(header.path, read), wanted.length];
    const voxels: Unit[] = [];
    for (const [first = '', ...others] of wanted) {
      const name = first.replace(/^(\.[/\\])+/, '');
      if (/[/\\]/.test(name)) {
        const why = `has its voxels in ${quotePath(first)}, and files are sent without their directories; `;
        obstacles.add(header.path, `${why}put both into one directory, with the name alone in the header`);
        const file = beside(header, name);
        if (obstacles.purpose === 'shown' && lookAt(file)?.stats)
          await isRefused(header, file, layout, count);
        return;
      }
      const half = find(
        [name, ...others].map((each) => beside(header, each)),
        header.base,
      );
      if (half === null) {
        const why = `has its voxels in ${quoteName(name)}, which is not beside it; put it there, or leave the header out`;
        obstacles.add(header.path, why);
      }
      if (half === null || half === 'refused') return;
      const isNamed = half.unit.kind === 'file' && half.unit.isNamed === true;
      if (!isNamed && (await isRefused(header, half.unit.path, layout, count))) return;
      voxels.push(half.unit);
    }
    // There is no reader for AFNI volumes, so only the end of a packed voxel file shows whether it is complete.
    const checked = header.format === 'AFNI' ? voxels : [header];
    for (const { path: file } of obstacles.purpose === 'sent' ? checked : []) {
      const why = await volumeFault(file);
      if (why === null) continue;
      refused.push({ header, file: voxels[0]?.path ?? file, why });
      if (!failsAlone) obstacles.add(file, why);
      return;
    }
    halves.push({ header, voxels });
  };

  for (const unit of given) await join(unit);
  const voxelsOf = new Map(halves.map((each) => [each.header, each.voxels]));
  const voxels = new Set(halves.flatMap((each) => each.voxels));
  const added = new Set<Unit>();
  const failing = new Set(failsAlone ? refused.map(({ file }) => path.resolve(file)) : []);
  const units = given.flatMap((unit) => {
    // A voxel file that cannot be sent fails the case of its header.
    if (voxels.has(unit) || failing.has(path.resolve(unit.path))) return [];
    if (unit.kind === 'file' && unit.doubt !== undefined && !failsAlone) obstacles.add(unit.path, unit.doubt);
    const own = (voxelsOf.get(unit) ?? []).filter((each) => !added.has(each));
    for (const each of own) added.add(each);
    return [unit, ...own];
  });
  return {
    units,
    halves,
    headless: headless.filter((unit) => !voxels.has(unit)).map((unit) => unit.path),
    followed,
    incomplete: refused.map(({ header }) => header),
    faults: faultsOf(refused),
  };
}

const faultsOf = (refused: readonly Refused[]): ReadonlyMap<string, string> =>
  new Map(
    refused.flatMap(({ header, file, why }) => [
      [path.resolve(file), why] as const,
      [path.resolve(header.path), `has its voxels in ${quotePath(file)}, which ${why}`] as const,
    ]),
  );

/** Whether an app finds the voxels of a header under the names that both files get. */
function areTogether(header: Unit, voxels: Unit, nameOf: (unit: Unit) => string): boolean {
  const stem = pairStem(path.basename(header.path));
  if (stem === null) return nameOf(voxels) === path.basename(voxels.path);
  return pairStem(nameOf(header)) === pairStem(nameOf(voxels));
}

/** Headers whose content names the voxel file. */
const detachedHeader = /\.(mhd|nhdr)$/i;

/** Adds to the obstacles the volumes whose header and voxel files would not match under the names by which they are sent. */
export function checkNamesOfHalves(
  { units, halves }: Completed,
  nameOf: (unit: Unit) => string,
  obstacles: Obstacles,
): void {
  const joined = new Set(halves.map((each) => each.header));
  for (const unit of units) {
    // It is ambiguous which of the files to be renamed has its voxels.
    if (joined.has(unit) || !detachedHeader.test(unit.path) || nameOf(unit) === plainName(unit.path))
      continue;
    const why =
      'shares its name with another file and says inside which file has its voxels, so neither can be renamed; ' +
      'give them different names, or make one file of each (.mha, .nrrd)';
    obstacles.add(unit.path, why);
  }
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
