import { type Dirent, existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import * as z from 'zod/mini';
import { logName, recordName, resultName } from '../../contract/index.js';
import { foldedName, hashFile, readSmallFile } from '../../files/index.js';
import { byName, groupBy, isHidden, isVolumeName, plainName, withoutVolumeEnding } from '../inputs/index.js';

/** What tells of a volume to which others it belongs. */
export interface Named {
  /** Its name without the ending, in lower case. */
  readonly stem: string;
  /** Names of the directories that it lies in, from the root, in lower case. */
  readonly folders: readonly string[];
}

/** Whether a text begins with another one and goes on behind a letter or digit: `case1_seg` after `case1`, not `case12`. */
const extendsName = (text: string, start: string): boolean =>
  text.startsWith(start) && (text.length === start.length || !/[\p{L}\p{N}]/u.test(text[start.length] ?? ''));

/** The name of a scan without the number of its channel (nnU-Net) or its suffix (BIDS): `sub-01` of `sub-01_T1w`. */
const withoutSuffix = (stem: string): string => stem.replace(/_(\d{4}|[a-z][a-z0-9]*)$/, '');

/** How certain it is that names belong together, by the way in which they do. */
const certainty = { same: 4000, extends: 3000, contains: 2000, suffix: 1000, folder: 500, parent: 300 };

/**
 * How well the names of a result and a scan fit: 0 for not at all.
 * @param only whether folders and suffixes count too
 */
export function rankOf(result: Named, scan: Named, only: 'all' | 'extends' = 'all'): number {
  const { stem } = scan;
  if (result.stem === stem) return certainty.same;
  if (extendsName(result.stem, stem)) return certainty.extends + stem.length;
  if (only === 'extends') return 0;
  const parts = result.stem.split(/[^\p{L}\p{N}]+/u);
  if (parts.includes(stem)) return certainty.contains;
  const short = withoutSuffix(stem);
  if (short !== stem && extendsName(result.stem, short)) return certainty.suffix + short.length;
  const shared = result.folders.findIndex((each, at) => each !== scan.folders[at]);
  const own = shared < 0 ? [] : result.folders.slice(shared);
  if (own.includes(stem)) return certainty.folder;
  const parent = scan.folders.at(-1);
  const hasOwnParent = parent !== undefined && shared >= 0 && scan.folders.length > shared;
  return hasOwnParent && own.includes(parent) ? certainty.parent : 0;
}

/** The elements with the largest number; none if no number is above 0. */
export function bestOf<T>(elements: readonly T[], numberOf: (element: T) => number): T[] {
  const numbers = elements.map(numberOf);
  const best = Math.max(0, ...numbers);
  return best === 0 ? [] : elements.filter((_, at) => numbers[at] === best);
}

/** The directories of a path. */
export const foldersOf = (target: string): string[] =>
  path.dirname(path.resolve(target)).split(path.sep).map(foldedName);

/** Largest record that is read, in bytes. */
const maxRecord = 16 << 20;

const recordSchema = z.object({
  inputs: z
    .array(
      z.object({
        name: z.string().check(z.maxLength(1000)),
        size: z.number(),
        sha256: z.string(),
        field: z._default(z.string(), 'inputs'),
        group: z._default(z.number(), 0),
      }),
    )
    .check(z.maxLength(100_000)),
});

/** How far above a file the directory of its result may lie. */
const resultLevels = 3;

/** The directory of the result that a file is part of; null if it is part of none. */
export function resultOf(file: string): string | null {
  let directory = path.dirname(path.resolve(file));
  for (let level = 0; level < resultLevels; level += 1, directory = path.dirname(directory))
    if ([resultName, recordName, logName].some((name) => existsSync(path.join(directory, name))))
      return directory;
  return null;
}

const stemOf = (name: string): string => foldedName(withoutVolumeEnding(plainName(name)));

/** An input of a result, as its record names it. */
interface Recorded extends Named {
  readonly group: number;
  /** Of a directory, the path of a file in it; empty for a file. */
  readonly within: string;
  /** Of the file, or of that file in the directory. */
  readonly size: number;
  readonly sha256: string;
}

/** The inputs that the record of a result names, of each directory one file; empty if there is no record that can be read. */
function recordedInputs(directory: string): Recorded[] {
  try {
    const document: unknown = JSON.parse(readSmallFile(path.join(directory, recordName), maxRecord));
    const scans = recordSchema.parse(document).inputs.filter(({ field }) => field === 'inputs');
    const units = groupBy(scans, ({ name, group }) => `${group} ${name.split('/', 1)[0]}`);
    return units.flatMap(([first]) => {
      if (!first) return [];
      const [name = '', ...within] = first.name.split('/');
      return [{ ...first, stem: stemOf(name), folders: [], within: within.join('/') }];
    });
  } catch {
    return [];
  }
}

/** A file or a directory that may be a scan, judging by its name. */
interface Candidate extends Named {
  readonly path: string;
  readonly isDirectory: boolean;
}

const candidateOf = (target: string): Candidate => ({
  path: target,
  stem: stemOf(target),
  folders: foldersOf(target),
  isDirectory: statSync(target, { throwIfNoEntry: false })?.isDirectory() ?? false,
});

/** Where scans are looked for, below the first directory: by what a record says, down to the files of a BIDS tree. */
const byRecord = { levels: 6, mostEntries: 100_000 };
/** And by names that only fit. */
const byNames = { levels: 2, mostEntries: 2000 };

/** The volumes and directories below some directories, by their names. Directories of results are left out. */
function candidatesIn(places: readonly string[], { levels, mostEntries }: typeof byNames): Candidate[] {
  const candidates = new Map<string, Candidate>();
  let entries = 0;
  let level = [...new Set(places)];
  for (let depth = 0; depth < levels; depth += 1) {
    const next: string[] = [];
    for (const directory of level) {
      const folders = [...foldersOf(directory), foldedName(path.basename(directory))];
      let names: Dirent[] = [];
      try {
        names = readdirSync(directory, { withFileTypes: true }).sort((a, b) => byName(a.name, b.name));
      } catch {
        // It is not there any more, or may not be read: what is looked for can be named.
      }
      for (const entry of names) {
        entries += 1;
        if (entries > mostEntries) return [...candidates.values()];
        const target = path.join(directory, entry.name);
        const isDirectory = entry.isDirectory();
        if (isHidden(entry.name) || !(isDirectory || isVolumeName(entry.name))) continue;
        if (isDirectory && resultOf(path.join(target, 'any')) !== null) continue;
        candidates.set(target, { path: target, stem: stemOf(entry.name), folders, isDirectory });
        if (isDirectory) next.push(target);
      }
    }
    level = next;
  }
  return [...candidates.values()];
}

const byStems = (candidates: readonly Candidate[]): ReadonlyMap<string, readonly Candidate[]> =>
  new Map(groupBy(candidates, ({ stem }) => stem).map((group) => [group[0]?.stem ?? '', group]));

/** What was found for a result: paths of files and directories, which need not be scans. */
export interface FoundPaths {
  readonly paths: readonly string[];
  /** Whether they are what the record names, and do not only have names that fit. */
  readonly isRecorded: boolean;
}

/** Looks for the scans of results: in the directory that has the result's, and in the current one. */
export class ScanSearch {
  /** By the directories that are searched. */
  readonly #candidates = new Map<string, Candidate[]>();
  readonly #recorded = new Map<string, ReadonlyMap<string, readonly Candidate[]>>();
  readonly #hashes = new Map<string, Promise<string | null>>();
  readonly #taken: ReadonlySet<string>;

  /**
   * @param known paths of volumes that are not the scan
   * @param only where a person has named scans, their paths: nothing else is looked at, and names are not compared
   */
  constructor(
    known: readonly string[],
    private readonly only: readonly string[] | null,
  ) {
    this.#taken = new Set(known.map((each) => path.resolve(each)));
  }

  /** The file or directory that the record beside the result names; without one, those whose names fit best. */
  async find(result: Named, file: string): Promise<FoundPaths> {
    const root = resultOf(file);
    const place = path.dirname(root ?? path.resolve(file));
    const places = [...(root === null ? [place] : [place, path.dirname(place)]), process.cwd()];
    const recorded = root === null ? [] : await this.#named(result, recordedInputs(root), places);
    if (recorded.length > 0 || this.only) return { paths: recorded, isRecorded: true };
    const key = places.join('\0');
    const candidates = this.#candidates.get(key) ?? candidatesIn(places, byNames);
    this.#candidates.set(key, candidates);
    const free = candidates.filter((each) => !this.#taken.has(each.path));
    return {
      paths: bestOf(free, (each) => rankOf(result, each)).map((each) => each.path),
      isRecorded: false,
    };
  }

  /** The recorded input that the result is of: what has its name, size and content. */
  async #named(result: Named, inputs: readonly Recorded[], places: readonly string[]): Promise<string[]> {
    const [first, ...others] = inputs.filter(({ group }) => group === 0);
    const [fits] = bestOf(inputs, (each) => rankOf(result, each));
    const input = fits ?? (others.length === 0 ? first : undefined);
    if (!input) return [];
    const key = places.join('\0');
    const byStem =
      this.#recorded.get(key) ?? byStems(this.only?.map(candidateOf) ?? candidatesIn(places, byRecord));
    this.#recorded.set(key, byStem);
    const fileOf = (each: Candidate) => path.join(each.path, input.within);
    const fitting = (byStem.get(input.stem) ?? []).filter(
      (each) =>
        each.isDirectory === (input.within !== '') &&
        !this.#taken.has(each.path) &&
        statSync(fileOf(each), { throwIfNoEntry: false })?.size === input.size,
    );
    for (const each of fitting) if ((await this.#hashOf(fileOf(each))) === input.sha256) return [each.path];
    return [];
  }

  /** The hash of a file, which may be a candidate for many results; null for one that cannot be read. */
  #hashOf(file: string): Promise<string | null> {
    const hash =
      this.#hashes.get(file) ??
      hashFile(file).then(
        ({ sha256 }) => sha256,
        () => null,
      );
    this.#hashes.set(file, hash);
    return hash;
  }
}
