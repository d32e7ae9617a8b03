import path from 'node:path';
import { quoteName, quotePath } from '../../contract/index.js';
import { firstBytes, foldedName } from '../../files/index.js';
import { emptyFile, lookAt, type Obstacles } from './entries.js';
import type { Unit } from './inputs.js';

/** Most bytes of a header that are read, after a first piece that nearly every header fits into. */
const maxBytes = 64 * 1024;
const firstPiece = 4 * 1024;

/** The first match in the text that a file begins with; a line that is cut does not count. */
function matchInText(file: string, pattern: RegExp): RegExpExecArray | null {
  for (const bytes of [firstPiece, maxBytes]) {
    const start = firstBytes(file, bytes);
    const isWhole = start.length < bytes;
    const text = (isWhole ? start : start.subarray(0, start.lastIndexOf('\n') + 1)).toString();
    const match = pattern.exec(text);
    if (match || isWhole) return match;
  }
  return null;
}

/** MetaImage: the last line of its header. */
const metaLine = /^[ \t]*ElementDataFile[ \t]*[=:][ \t]*([^\r\n]*)/im;

/** NRRD: a line of the header, which ends at the first empty line. */
const nrrdLine = /^NRRD(?:[^\r\n]+\r?\n)+?data ?file:[ \t]*([^\r\n]*)/i;

/** What the words mean that a header has for its data file: one name, or nothing that is known here. */
function namesIn(words: string | undefined): readonly string[] | null {
  const name = words?.trim() ?? '';
  // A list of files, a pattern of names (`slice_%03d.raw 1 20 1`), or the same file.
  return name === '' || name.includes('%') || /^(local|list)(\s|$)/i.test(name) ? null : [name];
}

const pairHeader = /\.hdr(\.gz)?$/i;
const pairVoxels = /\.img(\.gz)?$/i;

/** The first number of the header of an ANALYZE or NIfTI-1 pair, and of a NIfTI-2 pair: how long it is. */
const headerSizes = [348, 540];

/** Whether a `.hdr` is a header of ANALYZE or NIfTI: other formats use this ending for text. */
function isPairHeader(file: string): boolean {
  if (/\.gz$/i.test(file)) return true;
  const start = firstBytes(file, 4);
  return (
    start.length === 4 &&
    headerSizes.some((size) => [start.readInt32LE(), start.readInt32BE()].includes(size))
  );
}

/** Names that differ in their endings, in the case of letters that the name has. */
function withEndings(stem: string, endings: readonly string[], like: string): string[] {
  const isUpper = like === like.toUpperCase();
  return endings.map((ending) => stem + (isUpper ? ending.toUpperCase() : ending));
}

/** The part of a name that both files of a pair share: `vol` of `vol.hdr` and `vol.img.gz`. Null for any other file. */
function pairStem(name: string): string | null {
  const match = pairHeader.exec(name) ?? pairVoxels.exec(name);
  return match ? name.slice(0, match.index) : null;
}

const isPairVoxels = (name: string): boolean => pairVoxels.test(name);

/** The names that the header of a `.img` may have. */
function headersOf(file: string): string[] {
  const name = path.basename(file);
  const ending = pairVoxels.exec(name);
  return ending ? withEndings(name.slice(0, ending.index), ['.hdr', '.hdr.gz'], ending[0]) : [];
}

/**
 * Where the voxels of a file are if they are in another one, as paths relative to its directory, one of which there has to
 * be. Null for a file that has them itself, and where that cannot be said for certain.
 */
function voxelFilesOf(file: string): readonly string[] | null {
  const name = path.basename(file);
  if (/\.(mhd|mha)$/i.test(name)) return namesIn(matchInText(file, metaLine)?.[1]);
  if (/\.(nhdr|nrrd)$/i.test(name)) return namesIn(matchInText(file, nrrdLine)?.[1]);
  const ending = pairHeader.exec(name);
  if (!ending || !isPairHeader(file)) return null;
  return withEndings(name.slice(0, ending.index), ['.img', '.img.gz'], ending[0]);
}

/** A header, and the file that has its voxels. */
interface Halves {
  readonly header: Unit;
  readonly voxels: Unit;
}

/** The volumes of one group, with all files that they consist of. */
export interface Completed {
  readonly units: readonly Unit[];
  readonly halves: readonly Halves[];
  /** Paths of `.img` files without a header beside them. */
  readonly headless: readonly string[];
}

const beside = (unit: Unit, name: string): string => path.join(path.dirname(unit.path), name);

/** The files of one group, by their places. */
class Group {
  #known: Map<string, Unit> | undefined;

  constructor(
    private readonly units: readonly Unit[],
    private readonly obstacles: Obstacles,
  ) {}

  /** Made when the first one is looked for: most groups have no halves, and may have thousands of files. */
  get #byPlace(): Map<string, Unit> {
    this.#known ??= new Map(this.units.map((unit) => [path.resolve(unit.path), unit]));
    return this.#known;
  }

  /** The first of these files that is in the group; otherwise the first that can join it, which `isNew` says. */
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
      const unit: Unit = { kind: 'file', path: target, size: look.stats?.size ?? 0 };
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
    const header = group.find(headersOf(unit.path).map((name) => beside(unit, name)));
    if (header === null) headless.push(unit);
    return header !== null && header !== 'refused' && header.isNew ? [header.unit, unit] : [unit];
  });
  return { units: all, headless };
}

/**
 * Adds to the volumes of a group the files that belong to them: the voxels of a header, and the header of voxels, from the
 * directory in which the other one is. What cannot arrive whole is an obstacle: files are sent without their directories, so
 * an app would take half of another volume for the half that is missing.
 */
export function completed(found: readonly Unit[], obstacles: Obstacles): Completed {
  const { units: given, headless } = withHeaders(found, obstacles);
  const group = new Group(given, obstacles);
  const halves: Halves[] = [];
  const units = given.flatMap((header) => {
    const [first, ...others] = (header.kind === 'file' && voxelFilesOf(header.path)) || [];
    if (first === undefined) return [header];
    const name = first.replace(/^(\.[/\\])+/, '');
    if (/[/\\]/.test(name)) {
      const why = `has its voxels in ${quotePath(first)}, and files are sent without their directories; `;
      obstacles.add(header.path, `${why}put both into one directory, with the name alone in the header`);
      return [header];
    }
    const voxels = group.find([name, ...others].map((each) => beside(header, each)));
    if (voxels === null) {
      const why = `has its voxels in ${quoteName(name)}, which is not beside it; put it there, or leave the header out`;
      obstacles.add(header.path, why);
    }
    if (voxels === null || voxels === 'refused') return [header];
    halves.push({ header, voxels: voxels.unit });
    return voxels.isNew ? [header, voxels.unit] : [header];
  });
  const voxels = new Set(halves.map((each) => each.voxels));
  return { units, halves, headless: headless.filter((unit) => !voxels.has(unit)).map((unit) => unit.path) };
}

/** Whether an app finds the voxels of a header by the names that both get. */
function areTogether({ header, voxels }: Halves, nameOf: (unit: Unit) => string): boolean {
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
  for (const half of halves) {
    if (areTogether(half, nameOf)) continue;
    const why =
      `has its voxels in ${quoteName(path.basename(half.voxels.path))}, which would be sent as ` +
      `${quoteName(nameOf(half.voxels))}, since another file has its name; send them with separate commands, or give them ` +
      'different names, inside their headers as well';
    obstacles.add(half.header.path, why);
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
