import { type Dirent, existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { type CaseRecord, type RecordedInput, readRecord } from '../../client/case/index.js';
import { bidsRecordEnding, bidsRecordOf, logName, recordName, tableName } from '../../client/output-names.js';
import { resultName } from '../../contract/index.js';
import { byName, hashFile, isDirectory } from '../../files/index.js';
import { groupBy, isHidden, isVolumeName, plainName, withoutVolumeEnding } from '../inputs/index.js';
import { type Named, namedBy, rankOf, ScanMatcher } from './match.js';

/** Maximum number of levels searched upwards from a file for the directory of its result. */
const resultLevels = 3;

/** The result that a file belongs to. */
export interface FoundResult {
  /** Path of its record, which may not exist. */
  readonly record: string;
  /** Its directory; for a result among others, the path prefix of its files. */
  readonly path: string;
  /** The directory with the results of all cases. */
  readonly root: string;
  /** Whether its files share a directory with those of other results, as BIDS derivatives do. */
  readonly isAmongOthers: boolean;
}

/**
 * Maximum number of levels searched upwards from a result for the table of all cases: the paths of results follow those of their
 * inputs.
 */
const tableLevels = 12;

/** The nearest directory with a table of cases, from this one up; this one if there is none. */
function directoryOfTable(directory: string): string {
  let root = directory;
  for (let level = 0; level < tableLevels; level += 1, root = path.dirname(root))
    if (existsSync(path.join(root, tableName))) return root;
  return directory;
}

/** The result that a file among BIDS derivatives belongs to; null if there is none. */
function resultAmongOthers(file: string): FoundResult | null {
  const directory = path.dirname(path.resolve(file));
  const name = bidsRecordOf(path.basename(file));
  const record = name === null ? '' : path.join(directory, name);
  if (!existsSync(record)) return null;
  const start = record.slice(0, -bidsRecordEnding.length);
  return { record, path: start, root: directoryOfTable(directory), isAmongOthers: true };
}

/** The result that a file belongs to; null if there is none. */
export function resultOf(file: string): FoundResult | null {
  const among = resultAmongOthers(file);
  if (among) return among;
  let directory = path.dirname(path.resolve(file));
  for (let level = 0; level < resultLevels; level += 1, directory = path.dirname(directory))
    if ([resultName, recordName, logName].some((name) => existsSync(path.join(directory, name))))
      return {
        record: path.join(directory, recordName),
        path: directory,
        root: directoryOfTable(path.dirname(directory)),
        isAmongOthers: false,
      };
  return null;
}

/** The record of a result; null if it is missing or cannot be read. */
export const recordOf = (result: FoundResult | null): CaseRecord | null =>
  result && readRecord(path.dirname(result.record), path.basename(result.record));

/** The name of a result's case; null if unknown. */
export function caseNameOf(result: FoundResult): string | null {
  const name = recordOf(result)?.case;
  return name ?? (result.isAmongOthers ? null : path.basename(result.path));
}

/** An input of a result, as its record names it. */
interface Recorded extends Named, Pick<RecordedInput, 'group' | 'size' | 'sha256'> {
  /** Of a directory, the path of the file in it that has this size and content; empty for a file. */
  readonly within: string;
}

/** The inputs that the record of a result names, with one file for each directory. */
function recordedInputs(result: FoundResult): Recorded[] {
  const inputs = recordOf(result)?.inputs ?? [];
  const scans = inputs.filter(({ field }) => field === 'inputs');
  const units = groupBy(scans, ({ name, group }) => `${group} ${name.split('/', 1)[0]}`);
  return units.flatMap(([first]) => {
    if (!first) return [];
    const [name = '', ...within] = first.name.split('/');
    return [{ ...first, stem: candidateOf(name, false).stem, folders: [], within: within.join('/') }];
  });
}

/** A file or a directory that may be a scan, judging by its name. */
interface Candidate extends Named {
  readonly path: string;
  readonly isDirectory: boolean;
}

const candidateOf = (target: string, isDirectory: boolean): Candidate => ({
  ...namedBy(target, withoutVolumeEnding(plainName(target))),
  path: target,
  isDirectory,
});

/** Limits of the search for recorded scans: down to the files of a BIDS tree. */
const byRecord = { levels: 6, maxEntries: 100_000 };
/** Limits of the search for scans whose names fit. */
const byNames = { levels: 2, maxEntries: 2000 };

/** The volumes and directories below some directories, by their names. Directories of results are left out. */
function candidatesIn(places: readonly string[], { levels, maxEntries }: typeof byNames): Candidate[] {
  const candidates = new Map<string, Candidate>();
  let entries = 0;
  let level = [...new Set(places)];
  for (let depth = 0; depth < levels; depth += 1) {
    const next: string[] = [];
    for (const directory of level) {
      let names: Dirent[] = [];
      try {
        names = readdirSync(directory, { withFileTypes: true }).sort((a, b) => byName(a.name, b.name));
      } catch {
        // The directory is gone or may not be read. The user can name the scan instead.
      }
      for (const entry of names) {
        entries += 1;
        if (entries > maxEntries) return [...candidates.values()];
        const target = path.join(directory, entry.name);
        const isDirectory = entry.isDirectory();
        if (isHidden(entry.name) || !(isDirectory || isVolumeName(entry.name))) continue;
        const result = isDirectory ? resultOf(path.join(target, 'any')) : resultAmongOthers(target);
        if (result !== null) continue;
        candidates.set(target, candidateOf(target, isDirectory));
        if (isDirectory) next.push(target);
      }
    }
    level = next;
  }
  return [...candidates.values()];
}

const byStems = (candidates: readonly Candidate[]): ReadonlyMap<string, readonly Candidate[]> =>
  new Map(groupBy(candidates, ({ stem }) => stem).map((group) => [group[0]?.stem ?? '', group]));

/** The paths found for a result: files and directories that may not be scans. */
export interface FoundPaths {
  readonly paths: readonly string[];
  /** Whether the record names these paths, rather than only their names fitting. */
  readonly isRecorded: boolean;
  /** Paths with the name of the recorded scan but different content: the result belongs to none of them. */
  readonly changed: readonly string[];
}

function directoriesAbove(file: string): string[] {
  const above = path.dirname(file);
  return above === file ? [] : [above, ...directoriesAbove(above)];
}

/** Searches for the scans of results: around the results, and in the current directory. */
export class ScanSearch {
  /** Matchers by the directories searched. */
  readonly #candidates = new Map<string, ScanMatcher<Candidate>>();
  readonly #recorded = new Map<string, ReadonlyMap<string, readonly Candidate[]>>();
  readonly #hashes = new Map<string, Promise<string | null>>();
  readonly #taken: ReadonlySet<string>;
  /** Directories that contain results. */
  readonly #above: ReadonlySet<string>;

  /**
   * @param known paths of volumes that are not the scan
   * @param only paths of scans named by the user: nothing else is searched, and names are not compared; null if the user named
   *   none
   */
  constructor(
    known: readonly string[],
    private readonly only: readonly string[] | null,
  ) {
    this.#taken = new Set(known.map((each) => path.resolve(each)));
    this.#above = new Set([...this.#taken].flatMap(directoriesAbove));
  }

  /** Searches for possible scans of a result: the one that the record beside it names, otherwise those whose names fit best. */
  async find(result: Named, file: string): Promise<FoundPaths> {
    const known = resultOf(file);
    const place = known?.root ?? path.dirname(path.resolve(file));
    const above = path.dirname(place);
    // Derivatives of BIDS usually lie in the tree of their scans.
    const tree = path.basename(above) === 'derivatives' ? [path.dirname(above)] : [];
    const places = [...(known ? [place, above, ...tree] : [place]), process.cwd()];
    const inputs = known ? recordedInputs(known) : [];
    const recorded = await this.#named(result, inputs, places);
    if (recorded.paths.length > 0 || this.only) return { ...recorded, isRecorded: true };
    const key = places.join('\0');
    const matcher = this.#candidates.get(key) ?? this.#matcherFor(places);
    this.#candidates.set(key, matcher);
    const changed = new Set(recorded.changed);
    const { scans, isSaid } = matcher.fit(
      result,
      matcher.scans.filter((each) => !changed.has(each.path)),
    );
    return {
      paths: isSaid ? scans.map((each) => each.path) : [],
      isRecorded: false,
      changed: recorded.changed,
    };
  }

  #matcherFor(places: readonly string[]): ScanMatcher<Candidate> {
    const isFree = (each: Candidate) => !(this.#taken.has(each.path) || this.#above.has(each.path));
    return new ScanMatcher(candidatesIn(places, byNames).filter(isFree));
  }

  /**
   * Searches for the recorded input of a result: returns the path with its name, size and content, or those that only have its
   * name.
   */
  async #named(
    result: Named,
    inputs: readonly Recorded[],
    places: readonly string[],
  ): Promise<Pick<FoundPaths, 'paths' | 'changed'>> {
    const [first, ...others] = inputs.filter(({ group }) => group === 0);
    const ranks = inputs.map((each) => rankOf(result, each));
    const fits = Math.max(0, ...ranks) > 0 ? inputs[ranks.indexOf(Math.max(...ranks))] : undefined;
    const input = fits ?? (others.length === 0 ? first : undefined);
    if (!input) return { paths: [], changed: [] };
    const key = places.join('\0');
    const byStem =
      this.#recorded.get(key) ??
      byStems(
        this.only?.map((each) => candidateOf(each, isDirectory(each))) ?? candidatesIn(places, byRecord),
      );
    this.#recorded.set(key, byStem);
    const fileOf = (each: Candidate) => path.join(each.path, input.within);
    const named = (byStem.get(input.stem) ?? []).filter(
      (each) => each.isDirectory === (input.within !== '') && !this.#taken.has(each.path),
    );
    for (const each of named) {
      if (statSync(fileOf(each), { throwIfNoEntry: false })?.size !== input.size) continue;
      if ((await this.#hashOf(fileOf(each))) === input.sha256) return { paths: [each.path], changed: [] };
    }
    return { paths: [], changed: named.map((each) => each.path) };
  }

  /** The hash of a file, cached because it may be a candidate for many results; null if it cannot be read. */
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

/** The files that the records of these results name as their scans, by size and content. */
export class RecordedScans {
  readonly #hashesBySize = new Map<number, Set<string>>();

  /** @param files of results */
  constructor(files: readonly string[]) {
    const found = files.flatMap((file) => resultOf(file) ?? []);
    const results = new Map(found.map((each) => [each.record, each]));
    for (const { group, within, size, sha256 } of [...results.values()].flatMap(recordedInputs)) {
      if (group !== 0 || within !== '') continue;
      const hashes = this.#hashesBySize.get(size) ?? new Set();
      this.#hashesBySize.set(size, hashes.add(sha256));
    }
  }

  async has(file: string): Promise<boolean> {
    const hashes = this.#hashesBySize.get(statSync(file, { throwIfNoEntry: false })?.size ?? -1);
    return hashes?.has((await hashFile(file)).sha256) ?? false;
  }
}
