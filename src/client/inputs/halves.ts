import path from 'node:path';
import { quoteName, quotePath } from '../../contract/index.js';
import { firstBytes, foldedName } from '../../files/index.js';
import type { Unit } from './collect.js';
import { emptyFile, lookAt, type Obstacles } from './entries.js';
import { formatNameOf } from './formats.js';

/** Most bytes of a header that are read, after a first piece that nearly every header fits into. */
const maxBytes = 64 * 1024;
const firstPiece = 4 * 1024;

/** The first match in the beginning of a file; a truncated last line does not count. */
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

/** MetaImage: the last line of its header, and a list of files after it. */
const metaLine =
  /^[ \t]*ElementDataFile[ \t]*[=:][ \t]*([^\r\n]*)\r?\n?((?:[ \t]*[\x21-\x7e\u00a0-\uffff][^\r\n]*\r?\n?)*)/im;

/** NRRD: a line of the header, which ends at the first empty line, and a list of files after it. */
const nrrdLine = /^NRRD(?:[^\r\n]+\r?\n)+?data ?file:[ \t]*([^\r\n]*)\r?\n?((?:[^\r\n]+\r?\n?)*)/i;

/** Most files that one header may name. */
const maxFiles = 10_000;

/** The names of a pattern such as `slice_%03d.raw 1 20 1`: from, to, step. Null for another text. */
function patternNames(words: string): string[] | null {
  const match = /^(.*%(0?)(\d*)d.*?)[ \t]+(-?\d+)[ \t]+(-?\d+)(?:[ \t]+(-?\d+))?/.exec(words);
  if (!match) return null;
  const [, pattern = '', zero, width, ...numbers] = match;
  const [from = 0, to = 0, step = 1] = numbers.map((each) => (each === undefined ? undefined : Number(each)));
  const count = step === 0 ? 0 : Math.floor((to - from) / step) + 1;
  if (count < 1 || count > maxFiles) return null;
  return Array.from({ length: count }, (_, at) =>
    pattern.replace(/%0?\d*d/, String(from + at * step).padStart(Number(width), zero === '0' ? '0' : ' ')),
  );
}

/**
 * The files that a header names for its voxels; null if the voxels are in the header's own file, or the value is not
 * understood.
 * @param words the text after the key, such as `a.raw`, `LIST` or a pattern
 * @param lines the lines after it, each of which names a file if there is a list
 */
function namesIn(words: string, lines: string): string[] | null {
  const name = words.trim();
  if (name === '' || /^local$/i.test(name)) return null;
  if (/^list(\s|$)/i.test(name)) {
    const listed = lines.split(/\r?\n/).map((each) => each.trim());
    return listed.filter((each) => each !== '').slice(0, maxFiles);
  }
  return name.includes('%') ? patternNames(name) : [name];
}

/** The header length, which begins the header of an ANALYZE or NIfTI-1 pair, and of a NIfTI-2 pair. */
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

/** Volumes of two files of one name: the header, and its voxels. */
interface Pair {
  readonly header: RegExp;
  readonly headerEndings: readonly string[];
  readonly voxels: RegExp;
  readonly voxelEndings: readonly string[];
  readonly isHeader?: (file: string) => boolean;
}

const pairs: readonly Pair[] = [
  {
    header: /\.hdr(\.gz)?$/i,
    headerEndings: ['.hdr', '.hdr.gz'],
    voxels: /\.img(\.gz)?$/i,
    voxelEndings: ['.img', '.img.gz'],
    isHeader: isPairHeader,
  },
  { header: /\.par$/i, headerEndings: ['.par'], voxels: /\.rec$/i, voxelEndings: ['.rec'] },
  {
    header: /\+(orig|acpc|tlrc)\.head$/i,
    headerEndings: ['.head'],
    voxels: /\+(orig|acpc|tlrc)\.brik(\.gz|\.bz2)?$/i,
    voxelEndings: ['.brik', '.brik.gz', '.brik.bz2'],
  },
];

/** Names that differ in their endings, in the case of letters that the name has. */
function withEndings(stem: string, endings: readonly string[], like: string): string[] {
  const isUpper = like === like.toUpperCase();
  // `+orig.HEAD` goes with `+orig.BRIK.gz`: the compression suffix is in lower case.
  return endings.map(
    (ending) => stem + (isUpper ? ending.replace(/^\.\w+/, (first) => first.toUpperCase()) : ending),
  );
}

/** A name without an ending: `vol` of `vol.hdr` and `vol.img.gz`. */
function stemOf(name: string, endings: readonly string[]): string {
  const lower = name.toLowerCase();
  const ending = endings.toReversed().find((each) => lower.endsWith(each)) ?? '';
  return name.slice(0, name.length - ending.length);
}

/** The part of a name that both files of a pair share: `vol` of `vol.hdr` and `vol.img.gz`. Null for any other file. */
function pairStem(name: string): string | null {
  for (const { header, headerEndings, voxels, voxelEndings } of pairs) {
    if (header.test(name)) return stemOf(name, headerEndings);
    if (voxels.test(name)) return stemOf(name, voxelEndings);
  }
  return null;
}

const isPairVoxels = (name: string): boolean => pairs.some(({ voxels }) => voxels.test(name));

/** The names that the header of a file with voxels may have. */
function headersOf(file: string): string[] {
  const name = path.basename(file);
  const pair = pairs.find(({ voxels }) => voxels.test(name));
  if (!pair) return [];
  const stem = stemOf(name, pair.voxelEndings);
  return withEndings(stem, pair.headerEndings, name.slice(stem.length).replace(/\.(gz|bz2)$/, ''));
}

/**
 * The other files that hold a file's voxels: for each, its possible names, relative to the header's directory. Null for a
 * file that has its own voxels, and if that is uncertain.
 */
function voxelFilesOf(file: string): readonly (readonly string[])[] | null {
  const name = path.basename(file);
  const line = /\.(mhd|mha)$/i.test(name) ? metaLine : /\.(nhdr|nrrd)$/i.test(name) ? nrrdLine : null;
  if (line) {
    const match = matchInText(file, line);
    return match && (namesIn(match[1] ?? '', match[2] ?? '')?.map((each) => [each]) ?? null);
  }
  const pair = pairs.find(({ header }) => header.test(name));
  if (!pair || pair.isHeader?.(file) === false) return null;
  const stem = stemOf(name, pair.headerEndings);
  return [withEndings(stem, pair.voxelEndings, name.slice(stem.length))];
}

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
    const header = group.find(headersOf(unit.path).map((name) => beside(unit, name)));
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
    const wanted = (header.kind === 'file' && voxelFilesOf(header.path)) || [];
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
