import path from 'node:path';
import { namesIn, windowsName, withoutEnding } from '../files/index.js';
import type { NamedUnit, Series } from './found-files.js';

/** BIDS directories for types of data. */
export const datatypes = /^(anat|beh|ct|dwi|eeg|fmap|func|ieeg|meg|micr|motion|mrs|nirs|perf|pet)$/;

/** A BIDS file name without its ending: subject, optional session, other entities, suffix. */
const bidsName = /^(sub-[\p{L}\p{N}+]+)(?:_(ses-[\p{L}\p{N}+]+))?(?:_[a-z]+-[\p{L}\p{N}+]+)*_[\p{L}\p{N}]+$/u;

/** The entities and suffix of a file whose name and folders conform to BIDS; null for any other file. */
function bidsNameOf(file: string): string | null {
  const folders = path.resolve(file).split(path.sep);
  const stem = withoutEnding(folders.pop() ?? '');
  const [, subject, session] = bidsName.exec(stem) ?? [];
  if (subject === undefined || !datatypes.test(folders.pop() ?? '')) return null;
  const wanted = session === undefined ? [subject] : [subject, session];
  return folders.slice(-wanted.length).join('/') === wanted.join('/') ? stem : null;
}

/** Maximum length of a description in a name, in characters. */
const maxDescription = 40;

/** Turns text from a file into part of a name. */
function wordsOf(text: string): string {
  const words = text
    .normalize('NFC')
    .replace(/[^\p{L}\p{N}]+/gu, '-')
    .replace(/^-+|-+$/g, '');
  return [...words].slice(0, maxDescription).join('');
}

/**
 * Distinguishes a series within its directory: `3_T1-MPRAGE`, followed by the patient if the directory holds scans of several
 * people. Empty if the files contain none of these.
 */
export function numberAndDescription({
  number,
  description,
  person,
}: Pick<Series, 'number' | 'description' | 'person'>): string[] {
  const parts = [number, wordsOf(description), wordsOf(person)].filter(
    (part) => part !== null && part !== '',
  );
  return parts.length === 0 ? [] : [parts.join('_')];
}

/** Turns a part of a path into a directory name that is valid on every system and not hidden. */
const casePart = (part: string): string => windowsName(part.replace(/^[.\-\s]+/, '').slice(0, 200)) || 'case';

/** The parts of a path as typed, without the root and parts that lead up. @param system the path rules to apply */
export const typedParts = (typed: string, system = path): string[] =>
  system
    .normalize(typed)
    .slice(system.parse(typed).root.length)
    .split(system.sep)
    .filter((part) => !['', '.', '..'].includes(part));

/**
 * The name of a volume's case: its BIDS entities, otherwise its path below the named directory, without the ending. It depends
 * only on the volume and on what was typed. For a series, its number and description are appended to the directory, since another
 * series may be added there.
 */
export function caseNameOf(unit: NamedUnit): string {
  const bids = unit.kind === 'series' ? null : bidsNameOf(unit.path);
  if (bids !== null) return bids;
  const parts =
    unit.base === undefined
      ? typedParts(unit.path)
      : path
          .relative(path.resolve(unit.base), path.resolve(unit.path))
          .split(path.sep)
          .filter((part) => part !== '');
  if (unit.kind === 'series') parts.push(...numberAndDescription(unit.series));
  if (parts.length === 0) parts.push(path.basename(path.resolve(unit.path)));
  const last = parts.pop() ?? '';
  const isFile = unit.kind !== 'series';
  return [...parts, isFile ? withoutEnding(last) : last].map(casePart).join('/');
}

/** Finds out whether the inputs of cases exist, by their names only. */
export class InputLookup {
  readonly #listed = new Map<string, string[]>();
  readonly #bases: ReadonlySet<string>;

  /**
   * @param units the volumes that the command found. Cases are looked for in their directories, below the named directories,
   *   and above these, since another command may have named a directory there
   */
  constructor(units: readonly NamedUnit[]) {
    const bases = new Set<string>();
    for (const { base, path: file } of units) {
      let above = path.resolve(base ?? path.dirname(file));
      for (; !bases.has(above); above = path.dirname(above)) bases.add(above);
      const place = path.resolve(file).split(path.sep);
      const subject = place.findLastIndex((part) => /^sub-/.test(part) && part !== place.at(-1));
      if (subject > 0) bases.add(place.slice(0, subject).join(path.sep) || path.sep);
    }
    this.#bases = bases;
  }

  /** Whether there is a file, or a directory with a series, that would give a case this name. */
  has(name: string): boolean {
    const [subject, session] = name.split('_').filter((part) => /^(sub|ses)-/.test(part));
    const parts = name.split('/');
    return [...this.#bases].some((base) => {
      if (this.#leadsTo(base, parts)) return true;
      if (parts.length > 1 || subject === undefined) return false;
      const folder = path.join(base, subject, session ?? '');
      return this.#list(folder).some((each) => this.#leadsTo(path.join(folder, each), parts));
    });
  }

  #list(directory: string): readonly string[] {
    const listed = this.#listed.get(directory) ?? namesIn(directory);
    this.#listed.set(directory, listed);
    return listed;
  }

  #leadsTo(directory: string, [first = '', ...rest]: readonly string[]): boolean {
    const entries = this.#list(directory);
    if (rest.length === 0) {
      // The last part of a series' name comes from its files, so its directory is enough.
      return (
        entries.some((each) => [each, withoutEnding(each)].map(casePart).includes(first)) ||
        isSeries(first, entries)
      );
    }
    return entries.some(
      (each) => casePart(each) === first && this.#leadsTo(path.join(directory, each), rest),
    );
  }
}

/** Whether a case may be a series among these files; only their content could tell for certain. */
const isSeries = (part: string, entries: readonly string[]): boolean =>
  /^\d+(_|$)/.test(part) && entries.some((each) => /\.(dcm|ima)$|^[^.]*$/i.test(each));
