import path from 'node:path';
import type { FoundFiles, NamedUnit } from '../../client/found-files.js';
import type { OriginalNames } from '../../client/outgoing.js';
import { hasZarrName, isSidecar, withoutVolumeEnding } from '../inputs/index.js';

/** A neutral name for a case: `case-0001`. */
const neutral = (number: number): string => `case-${String(number).padStart(4, '0')}`;

/** Added to the number of a name that is taken. It is larger than the number of cases in any submission. */
const beyond = 1_000_000;

/**
 * The words in a submission that look like neutral names, because the user may name files that way too. Such a name is not given
 * to any file.
 */
export function namesLikeNeutral(submission: readonly FoundFiles[]): ReadonlySet<string> {
  const units = submission.flatMap(({ volumes }) => volumes.flatMap(({ groups }) => groups.flat()));
  const words = units.flatMap(({ path: file, name }) => `${file} ${name}`.match(/case-\d+/gi) ?? []);
  return new Set(words.map((word) => word.toLowerCase()));
}

/** Extension of a name, by which programs recognise the format; empty if it is unknown. */
function endingOf(name: string): string {
  const view = /\+(orig|acpc|tlrc)\.(head|brik|brik\.gz|brik\.bz2)$/i.exec(name);
  if (view) return view[0];
  const known = name.slice(withoutVolumeEnding(name).length);
  if (known !== '' || !isSidecar(name)) return known;
  return /(\.(tsv|csv|json|txt))?\.[a-z0-9]+$/i.exec(name)?.[0] ?? '';
}

/** A name without its extension, in lower case. Files with the same stem belong together. */
const stemOf = (name: string): string => name.slice(0, name.length - endingOf(name).length).toLowerCase();

/**
 * The neutral names of the files of a submission. Files at the same position in all groups share a name, and so do a header, its
 * voxels and other files with the same stem.
 */
export class NeutralNames {
  readonly #names = new Map<NamedUnit, string>();
  readonly #originals = new Map<string, string>();
  /** Names by absolute path. */
  readonly #byPath = new Map<string, string>();

  /**
   * @param unpacksDicom whether DICOM files are sent unpacked
   * @param own names that must not be given, because they occur among the user's files
   * @param first the number of the first case
   */
  constructor(
    { volumes }: FoundFiles,
    private readonly unpacksDicom: boolean,
    private readonly own: ReadonlySet<string>,
    first = 1,
  ) {
    const max = Math.max(0, ...volumes.flatMap(({ groups }) => groups.map((each) => countOf(each))));
    for (const { groups } of volumes) {
      for (const group of groups) {
        // A single file beside groups of several, such as one mask, is for all cases.
        const isForAll = max > 1 && countOf(group) === 1;
        this.#add(group, isForAll ? 0 : first);
      }
    }
  }

  #add(group: readonly NamedUnit[], first: number): void {
    const numbers = new Map<string, number>();
    const taken = new Set<string>();
    const whole = group.filter(({ isHalf }) => !isHalf);
    for (const unit of whole) {
      const stem = stemOf(unit.name);
      const ending = this.#endingOf(unit);
      const known = numbers.get(stem);
      const isFree = known !== undefined && !taken.has(this.#token(known) + ending);
      const number = isFree ? known : first + numbers.size;
      numbers.set(isFree || known === undefined ? stem : unit.name, number);
      const token = this.#token(number);
      this.#give(unit, token + ending, taken);
      if (!this.#originals.has(token)) this.#originals.set(token, withoutVolumeEnding(unit.name));
    }
    for (const header of whole) {
      const halves = group.filter(({ isHalf, headers }) => isHalf && headers[0] === header.path);
      const name = this.nameOf(header);
      const stem = name.slice(0, name.length - endingOf(name).length);
      for (const [at, unit] of halves.entries()) {
        const part = halves.length > 1 ? `_${String(at + 1).padStart(4, '0')}` : '';
        const ending = endingOf(unit.name);
        // Two headers may share a stem and each have its own voxels.
        const isTaken = taken.has(stem + part + ending);
        this.#give(unit, `${stem}${part}${isTaken ? `_${taken.size}` : ''}${ending}`, taken);
      }
    }
  }

  #token(number: number): string {
    const token = neutral(number);
    return this.own.has(token) ? this.#token(number + beyond) : token;
  }

  #endingOf(unit: NamedUnit): string {
    if (unit.kind !== 'file') return hasZarrName(unit.name) ? '.zarr' : '';
    const ending = endingOf(unit.name);
    if (unit.format !== 'DICOM') return ending;
    return ending === '' ? '.dcm' : this.unpacksDicom ? ending.replace(/\.gz$/i, '') : ending;
  }

  #give(unit: NamedUnit, name: string, taken: Set<string>): void {
    taken.add(name);
    this.#names.set(unit, name);
    this.#byPath.set(path.resolve(unit.path), name);
  }

  /** The name under which a file, series or store is sent. */
  nameOf(unit: NamedUnit): string {
    const name = this.#names.get(unit);
    if (name === undefined) throw new Error('A file without a neutral name would be sent');
    return name;
  }

  /** The name under which a file named by a header is sent; null if it is not sent. */
  nameOfPath(file: string): string | null {
    return this.#byPath.get(file) ?? null;
  }

  /** The files found, with their neutral names, as shown to the user. */
  applied(found: FoundFiles): FoundFiles {
    const volumes = found.volumes.map(({ field, groups }) => ({
      field,
      groups: groups.map((units) => units.map((unit) => ({ ...unit, name: this.nameOf(unit) }))),
    }));
    return { ...found, volumes };
  }

  get originals(): OriginalNames {
    return Object.fromEntries(this.#originals);
  }
}

/** Number of cases in a group. */
const countOf = (group: readonly NamedUnit[]): number =>
  new Set(group.filter(({ isHalf }) => !isHalf).map(({ name }) => stemOf(name))).size;
