import { existsSync, lstatSync, mkdirSync, readdirSync, renameSync, rmdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { bidsDescription, exitCodes, quotePath, recordName, someOf } from '../../contract/index.js';
import {
  foldedName,
  freeName,
  isRealDirectory,
  isSafeName,
  namesIn,
  readSmallFile,
  sharedMode,
  withoutEnding,
  writeJsonFile,
} from '../../files/index.js';
import { type CaseRecord, readRecord, withNames, writeRecord } from '../case/index.js';
import type { AppAnswer } from '../connection/index.js';
import { bidsRecordEnding, isBidsResult } from '../earlier-results.js';
import { ClientError, UsageError } from '../errors.js';
import type { FoundCase } from '../found-files.js';
import { CaseDirectories, type CasePlace, type Layout, type LayoutName } from './layout.js';

/** Directories of BIDS that say how data were taken. */
const datatypes = /^(anat|beh|ct|dwi|eeg|fmap|func|ieeg|meg|micr|motion|mrs|nirs|perf|pet)$/;

/** How deep below the data set its files are: `sub-`, `ses-`, the kind of data. */
const levels = 3;

/** Letters and digits alone, as BIDS takes them: `segLiver` of `seg_liver`. */
const asLabel = (text: string): string =>
  text
    .split(/[^\p{L}\p{N}]+/u)
    .filter(Boolean)
    .map((word, at) => (at === 0 ? word : word.charAt(0).toUpperCase() + word.slice(1)))
    .join('');

const isEntity = (part: string): boolean => /^[A-Za-z]+-[\p{L}\p{N}+]+$/u.test(part);

/** Records are moved last: a result without one is not whole. */
const recordsLast = (a: string, b: string): number =>
  Number(a.endsWith(bidsRecordEnding)) - Number(b.endsWith(bidsRecordEnding));

/** Where a new result goes, before another one has the same place. */
function wantedPlace({ subject, session, files }: FoundCase): {
  readonly folder: string;
  readonly entities: string;
  readonly suffix: string;
} {
  const file = path.resolve(files.volumes[0]?.groups[0]?.[0]?.path ?? '');
  const parts = withoutEnding(path.basename(file)).split('_');
  const last = parts.at(-1) ?? '';
  const own = [`sub-${subject}`, ...(session === null ? [] : [`ses-${session}`])];
  const others = parts.filter((part) => isEntity(part) && !/^(sub|ses|desc)-/.test(part));
  const parent = path.basename(path.dirname(file));
  return {
    folder: path.join(...own, datatypes.test(parent) ? parent : 'anat'),
    entities: [...own, ...others].join('_'),
    suffix: isEntity(last) ? '' : asLabel(last),
  };
}

/** @throws UsageError for cases whose paths name no subject */
export function checkSubjects(cases: readonly FoundCase[]): void {
  const without = cases.filter(({ subject }) => subject === null);
  if (without.length === 0) return;
  const paths = without.map(({ files }) => quotePath(files.volumes[0]?.groups[0]?.[0]?.path ?? ''));
  throw new UsageError(
    `--layout bids needs a subject, as in 'sub-01', in each path; there is none in ${someOf(paths)}`,
  );
}

/** Endings of what results are converted to, of which the first part belongs to the format. */
const convertedEnding = /\.(?:(?:seg|labelmap|rtstruct)\.dcm|seg\.nrrd)$/i;

/** What an output is called after the prefix of its case: `mask.nii.gz` of `sub-01_T1w_mask.nii.gz`. */
function wordOf(unit: string, stems: readonly string[]): string {
  const base = path.posix.basename(unit);
  const ending = convertedEnding.exec(base)?.[0] ?? base.slice(withoutEnding(base).length);
  const stem = base.slice(0, base.length - ending.length);
  const before = stems.filter((each) => stem.startsWith(each)).sort((a, b) => b.length - a.length)[0] ?? '';
  return (asLabel(stem.slice(before.length)) || 'result') + ending;
}

/**
 * Derivatives of BIDS: results lie among each other, `sub-01/anat/sub-01_desc-brain_mask.nii.gz`. The directory of the results is the
 * data set of the derivatives of one app.
 */
export class BidsLayout implements Layout {
  readonly #places = new Map<string, CasePlace>();

  constructor(private readonly root: string) {}

  #placeAt(directory: string, prefix: string): CasePlace {
    return { directory, prefix, record: `${prefix}${bidsRecordEnding.slice(1)}` };
  }

  /** The records below a directory, each with its place. Links are not followed. */
  *#recordsBelow(
    directory: string,
    left = levels,
  ): Generator<{ readonly record: CaseRecord; readonly name: string; readonly place: CasePlace }> {
    for (const entry of namesIn(directory)) {
      const target = path.join(directory, entry);
      if (entry.endsWith(bidsRecordEnding) && isBidsResult(entry)) {
        const record = lstatSync(target, { throwIfNoEntry: false })?.isFile()
          ? readRecord(directory, entry)
          : null;
        const name = record?.case ?? '';
        const prefix = entry.slice(0, 1 - bidsRecordEnding.length);
        if (record && isSafeName(name)) yield { record, name, place: this.#placeAt(directory, prefix) };
      } else if (left > 0 && !entry.startsWith('.') && !isBidsResult(entry) && isRealDirectory(target))
        yield* this.#recordsBelow(target, left - 1);
    }
  }

  /** Finds the places of earlier results, and chooses those of new ones. The first result of an app has the plain name. */
  plan(cases: readonly FoundCase[], app: string): void {
    for (const { name, place } of this.#recordsBelow(this.root))
      if (!this.#places.has(name)) this.#places.set(name, place);
    const keyOf = ({ directory, prefix }: CasePlace) => foldedName(path.join(directory, prefix));
    const taken = new Set([...this.#places.values()].map(keyOf));
    for (const each of cases) {
      if (this.#places.has(each.name)) continue;
      const { folder, entities, suffix } = wantedPlace(each);
      const word = asLabel(app) || 'app';
      let place: CasePlace;
      let number = 0;
      do {
        const more = number === 0 ? '' : suffix + (number === 1 && suffix !== '' ? '' : number);
        place = this.#placeAt(path.join(this.root, folder), `${entities}_desc-${word}${more}_`);
        number += 1;
      } while (taken.has(keyOf(place)));
      taken.add(keyOf(place));
      this.#places.set(each.name, place);
    }
  }

  placeOf(name: string): CasePlace | null {
    return this.#places.get(name) ?? null;
  }

  records(without: ReadonlySet<string> = new Set()): Map<string, CaseRecord> {
    const records = new Map<string, CaseRecord>();
    for (const { name, record } of this.#recordsBelow(this.root))
      if (!without.has(name) && !records.has(name)) records.set(name, record);
    return records;
  }

  /** The files and directories of a place. */
  #entriesOf(place: CasePlace | null): string[] {
    if (place === null) return [];
    return namesIn(place.directory)
      .filter((name) => name.startsWith(place.prefix))
      .sort(recordsLast);
  }

  isThere(name: string): boolean {
    return this.#entriesOf(this.placeOf(name)).length > 0;
  }

  rename(name: string, complete: string): void {
    const [place, record] = [this.placeOf(name), readRecord(complete)];
    if (!place || !record)
      throw new ClientError('Its record cannot be read, by which its files are named', exitCodes.failed);
    const { prefix } = place;
    const stems = [name, ...record.inputs.map((each) => withoutEnding(each.name.split('/')[0] ?? ''))];
    const log = record.log === null ? null : `${prefix}log.txt`;
    const taken = new Set([place.record, log ?? ''].map(foldedName));
    const names = new Map<string, string>();
    const groups = new Map<string, string[]>();
    for (const { name: output } of record.outputs) {
      const top = output.split('/')[0] ?? '';
      groups.set(top, [...(groups.get(top) ?? []), output]);
    }
    for (const [top, [first = '', ...others]] of groups) {
      // A directory with one file is a wrapping.
      const unit = others.length === 0 && !/\.zarr$/i.test(top) ? first : top;
      const wanted = prefix + wordOf(unit, stems);
      const free = freeName(wanted, new Map(), (each) => taken.has(foldedName(each)));
      taken.add(foldedName(free));
      renameSync(path.join(complete, unit), path.join(complete, free));
      // The directory itself is what a series of several files is called by.
      names.set(top, free);
      for (const output of [first, ...others]) names.set(output, free + output.slice(unit.length));
    }
    if (log !== null) renameSync(path.join(complete, record.log ?? ''), path.join(complete, log));
    rmSync(path.join(complete, recordName));
    const renamed = withNames(record, (each) => names.get(each) ?? each);
    writeRecord(complete, { ...renamed, case: name, log }, place.record);
  }

  moveIn(name: string, complete: string): void {
    const place = this.placeOf(name);
    if (!place) return;
    mkdirSync(place.directory, { recursive: true });
    for (const entry of this.#entriesOf({ ...place, directory: complete }))
      renameSync(path.join(complete, entry), path.join(place.directory, entry));
  }

  /** What is moved away keeps its path below the data set. */
  moveAway(name: string, aside: string): void {
    const place = this.placeOf(name);
    if (!place) return;
    const target = this.#aside(place, aside);
    mkdirSync(target, { recursive: true });
    for (const entry of this.#entriesOf(place))
      renameSync(path.join(place.directory, entry), path.join(target, entry));
    this.#removeEmpty(place.directory);
  }

  /** Removes a directory and those above it that have become empty, below the data set. */
  #removeEmpty(directory: string): void {
    for (let at = directory; at !== this.root && namesIn(at).length === 0; at = path.dirname(at))
      rmdirSync(at);
  }

  #aside({ directory }: CasePlace, aside: string): string {
    return path.join(aside, path.relative(this.root, directory));
  }

  recordAside(name: string, aside: string): CaseRecord | null {
    const place = this.placeOf(name);
    return place && readRecord(this.#aside(place, aside), place.record);
  }

  moveBack(_name: string, aside: string): void {
    this.#moveAllBack(aside, true);
  }

  /** @param replaces whether it replaces what has its place */
  #moveAllBack(aside: string, replaces: boolean): void {
    const merge = (from: string, to: string) => {
      for (const entry of readdirSync(from).sort(recordsLast)) {
        const [source, target] = [path.join(from, entry), path.join(to, entry)];
        if (isRealDirectory(source) && !isBidsResult(entry)) merge(source, target);
        else if (replaces || !existsSync(target)) {
          mkdirSync(to, { recursive: true });
          // Only a file replaces a file.
          if (isRealDirectory(source) || isRealDirectory(target))
            rmSync(target, { recursive: true, force: true });
          renameSync(source, target);
        }
      }
    };
    merge(aside, this.root);
    rmSync(aside, { recursive: true });
  }

  restore(name: string, aside: string): void {
    const [old] = this.#recordsBelow(aside);
    const isWhole =
      old && existsSync(path.join(this.root, path.relative(aside, old.place.directory), old.place.record));
    // What was moved away is whole, and its place has a record: that of the new result.
    if (isWhole) return;
    // Without its record it was being moved away, or was being removed since the new result was in place.
    const isNewThere = !old && [...this.#recordsBelow(this.root)].some((each) => each.name === name);
    this.#moveAllBack(aside, !isNewThere);
  }
}

/** The description of a data set; null if there is none that can be read. */
function descriptionIn(root: string): Record<string, unknown> | null {
  try {
    const document: unknown = JSON.parse(readSmallFile(path.join(root, bidsDescription), 1 << 20));
    return typeof document === 'object' && document !== null && !Array.isArray(document)
      ? (document as Record<string, unknown>)
      : {};
  } catch {
    return existsSync(path.join(root, bidsDescription)) ? {} : null;
  }
}

/** The names of what made a data set. */
const makersOf = ({ GeneratedBy }: Record<string, unknown>): unknown[] =>
  Array.isArray(GeneratedBy) ? GeneratedBy.map((each) => each?.Name) : [];

/** The layout of a directory of results. @throws UsageError for one that has results in the other layout */
export function layoutOf(root: string, name: LayoutName): CaseDirectories | BidsLayout {
  const description = descriptionIn(root);
  if (name === 'cases') {
    if (description && makersOf(description).includes('remote-app'))
      throw new UsageError(
        `${quotePath(root)} has results in the layout of BIDS: give --layout bids, or name another directory`,
      );
    return new CaseDirectories(root);
  }
  const cases = new CaseDirectories(root);
  if (cases.records().size > 0)
    throw new UsageError(
      `${quotePath(root)} has a directory for each case: name another one with -o, or leave out --layout bids`,
    );
  return new BidsLayout(root);
}

/** @throws UsageError for the directory of another data set than the derivatives of this app */
export function checkDerivatives(root: string, app: string): void {
  const there = descriptionIn(root);
  const makers = there ? makersOf(there) : [];
  if (there === null || (makers[0] === app && makers.includes('remote-app'))) return;
  throw new UsageError(
    `${quotePath(path.join(root, bidsDescription))} is that of another data set: name a directory of the app's own with -o, such as ` +
      `derivatives/remote-app-${asLabel(app)}`,
  );
}

/** Writes the description of the derivatives, or renews what it says of their origin. @throws the system's error */
export function describeDerivatives(
  root: string,
  app: string,
  view: AppAnswer | null,
  { clientVersion }: { readonly clientVersion: string },
): void {
  const there = descriptionIn(root);
  const version = view?.available ? view.version : null;
  const description = {
    Name: `Results of ${app}`,
    BIDSVersion: '1.10.0',
    DatasetType: 'derivative',
    ...there,
    GeneratedBy: [
      { Name: app, ...(version ? { Version: version } : {}) },
      { Name: 'remote-app', Version: clientVersion },
    ],
  };
  if (JSON.stringify(description) !== JSON.stringify(there))
    writeJsonFile(path.join(root, bidsDescription), description, { mode: sharedMode });
}
