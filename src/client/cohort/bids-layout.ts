import { existsSync, lstatSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { bidsDescription, exitCodes, isObject, quotePath, someOf } from '../../contract/index.js';
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
import { readRecord, withNames, writeRecord } from '../case/index.js';
import { datatypes } from '../case-names.js';
import type { AppAnswer } from '../connection/index.js';
import { ClientError, UsageError } from '../errors.js';
import type { FoundCase } from '../found-files.js';
import { bidsRecordEnding, isBidsResult, recordName } from '../output-names.js';
import { type CasePlace, type PlacedRecord, recordsOfDirectories } from './case-place.js';

/** How results are laid out: each case in its own directory, or as BIDS derivatives. */
export type LayoutName = 'cases' | 'bids';

/** Maximum depth of files in the data set: `sub-`, `ses-`, data type. */
const levels = 3;

/** A label with only letters and digits, as BIDS requires: `segLiver` for `seg_liver`. */
const asLabel = (text: string): string =>
  text
    .split(/[^\p{L}\p{N}]+/u)
    .filter(Boolean)
    .map((word, at) => (at === 0 ? word : word.charAt(0).toUpperCase() + word.slice(1)))
    .join('');

const isEntity = (part: string): boolean => /^[A-Za-z]+-[\p{L}\p{N}+]+$/u.test(part);

/** Endings of converted results that consist of two parts, where the first is part of the format. */
const convertedEnding = /\.(?:(?:seg|labelmap|rtstruct)\.dcm|seg\.nrrd)$/i;

/** An output's name without the prefix of its case: `mask.nii.gz` for `sub-01_T1w_mask.nii.gz`. */
function wordOf(unit: string, stems: readonly string[]): string {
  const base = path.posix.basename(unit);
  const volume = withoutEnding(base);
  const converted = convertedEnding.exec(base)?.[0];
  const ending = converted ?? (volume === base ? path.posix.extname(base) : base.slice(volume.length));
  const stem = base.slice(0, base.length - ending.length);
  const before = stems.filter((each) => stem.startsWith(each)).sort((a, b) => b.length - a.length)[0] ?? '';
  return (asLabel(stem.slice(before.length)) || 'result') + ending;
}

/** The records of results that share directories. Links are not followed. */
export function* recordsOfBids(root: string, depth = levels): Generator<PlacedRecord> {
  for (const entry of namesIn(root)) {
    const target = path.join(root, entry);
    if (entry.endsWith(bidsRecordEnding) && isBidsResult(entry)) {
      const record = lstatSync(target, { throwIfNoEntry: false })?.isFile() ? readRecord(root, entry) : null;
      const name = record?.case ?? '';
      const prefix = entry.slice(0, 1 - bidsRecordEnding.length);
      if (record && name.split('/').every((part) => isSafeName(part)))
        yield { name, record, place: { directory: root, prefix, record: entry } };
    } else if (depth > 0 && !entry.startsWith('.') && !isBidsResult(entry) && isRealDirectory(target))
      yield* recordsOfBids(target, depth - 1);
  }
}

/** Renames the files of a complete result as BIDS derivatives. @throws the system's error */
export function renameForBids({ prefix, record: recordFile }: CasePlace, complete: string): void {
  const record = readRecord(complete);
  if (!record)
    throw new ClientError('Its files cannot be named, because its record cannot be read', exitCodes.failed);
  const stems = record.inputs.map((each) => withoutEnding(each.name.split('/')[0] ?? ''));
  const log = record.log === null ? null : `${prefix}log.txt`;
  const taken = new Set([recordFile, log ?? ''].map(foldedName));
  const names = new Map<string, string>();
  const groups = new Map<string, string[]>();
  for (const { name } of record.outputs) {
    const top = name.split('/')[0] ?? '';
    groups.set(top, [...(groups.get(top) ?? []), name]);
  }
  for (const [first = '', ...others] of groups.values()) {
    const top = first.split('/')[0] ?? '';
    // A directory with one file is only a wrapper.
    const unit = others.length === 0 && !/\.zarr$/i.test(top) ? first : top;
    const wanted = prefix + wordOf(unit, stems);
    const free = freeName(wanted, new Map(), (each) => taken.has(foldedName(each)));
    taken.add(foldedName(free));
    renameSync(path.join(complete, unit), path.join(complete, free));
    // A series of several files is referred to by its directory.
    names.set(top, free);
    for (const output of [first, ...others]) names.set(output, free + output.slice(unit.length));
  }
  if (log !== null) renameSync(path.join(complete, record.log ?? ''), path.join(complete, log));
  rmSync(path.join(complete, recordName));
  const renamed = withNames(record, (each) => names.get(each) ?? each);
  writeRecord(complete, { ...renamed, log }, recordFile);
}

/** The description of a data set; null if there is none that can be read. */
function descriptionIn(root: string): Readonly<Record<string, unknown>> | null {
  try {
    const document: unknown = JSON.parse(readSmallFile(path.join(root, bidsDescription), 1 << 20));
    return isObject(document) ? document : {};
  } catch {
    return existsSync(path.join(root, bidsDescription)) ? {} : null;
  }
}

/** The names of the programs that made a data set. */
const makersOf = ({ GeneratedBy }: Record<string, unknown>): unknown[] =>
  Array.isArray(GeneratedBy) ? GeneratedBy.map((each) => each?.Name) : [];

/** @throws UsageError for a directory that has results in the other layout */
export function checkLayout(root: string, layout: LayoutName): void {
  const description = descriptionIn(root);
  if (layout === 'cases' && description && makersOf(description).includes('remote-app'))
    throw new UsageError(
      `${quotePath(root)} has results in the layout of BIDS: give --layout bids, or name another directory`,
    );
  if (layout === 'bids' && !recordsOfDirectories(root).next().done)
    throw new UsageError(
      `${quotePath(root)} has a directory for each case: name another one with -o, or leave out --layout bids`,
    );
}

/** A results directory as a BIDS derivatives data set, made by one app. */
export class BidsLayout {
  constructor(
    private readonly root: string,
    private readonly app: string,
  ) {}

  /**
   * The place of a case's result among derivatives: its entities, followed by one `desc-` that combines the scan's own
   * description, the app, and the scan's suffix, so that no other scan of the subject gets the same place. A name may have only
   * one `desc-`.
   */
  placeOf({ subject, session, files }: FoundCase): CasePlace {
    const file = path.resolve(files.volumes[0]?.groups[0]?.[0]?.path ?? '');
    const parts = withoutEnding(path.basename(file)).split('_');
    const last = parts.at(-1) ?? '';
    const own = [`sub-${subject}`, ...(session === null ? [] : [`ses-${session}`])];
    const others = parts.filter((part) => isEntity(part) && !/^(sub|ses|desc)-/.test(part));
    const parent = path.basename(path.dirname(file));
    const suffix = isEntity(last) ? '' : asLabel(last);
    const described = parts.find((part) => /^desc-/.test(part))?.slice('desc-'.length) ?? '';
    const word = asLabel([described, asLabel(this.app) || 'app', suffix].join(' '));
    const prefix = `${[...own, ...others].join('_')}_desc-${word}_`;
    const directory = path.join(this.root, ...own, datatypes.test(parent) ? parent : 'anat');
    return { directory, prefix, record: `${prefix}${bidsRecordEnding.slice(1)}` };
  }

  /** @throws UsageError for a directory that holds a data set other than the derivatives of this app */
  checkDirectory(): void {
    const there = descriptionIn(this.root);
    const makers = there ? makersOf(there) : [];
    if (there === null || (makers[0] === this.app && makers.includes('remote-app'))) return;
    throw new UsageError(
      `${quotePath(path.join(this.root, bidsDescription))} is that of another data set: name a directory of the app's own with -o, such as ` +
        `derivatives/remote-app-${asLabel(this.app)}`,
    );
  }

  /** @throws UsageError for cases whose paths name no subject, and for two that have the same entities and suffix */
  checkCases(cases: readonly FoundCase[]): void {
    const fileOf = ({ files }: FoundCase) => quotePath(files.volumes[0]?.groups[0]?.[0]?.path ?? '');
    const without = cases.filter(({ subject }) => subject === null);
    if (without.length > 0)
      throw new UsageError(
        `--layout bids needs a subject, as in 'sub-01', in each path; there is none in ${someOf(without.map(fileOf))}`,
      );
    const known = new Map<string, FoundCase>();
    for (const each of cases) {
      const { directory, prefix } = this.placeOf(each);
      const key = foldedName(path.join(directory, prefix));
      const other = known.get(key);
      if (other)
        throw new UsageError(
          `The results of ${fileOf(other)} and ${fileOf(each)} would have the same names: leave out --layout bids, or one of them`,
        );
      known.set(key, each);
    }
  }

  /** Writes the description of the derivatives, or renews what it says of their origin. @throws the system's error */
  describe(view: AppAnswer | null, clientVersion: string): void {
    const there = descriptionIn(this.root);
    const version = view?.available ? view.version : null;
    const description = {
      Name: `Results of ${this.app}`,
      BIDSVersion: '1.10.0',
      DatasetType: 'derivative',
      ...there,
      GeneratedBy: [
        { Name: this.app, ...(version ? { Version: version } : {}) },
        { Name: 'remote-app', Version: clientVersion },
      ],
    };
    if (JSON.stringify(description) !== JSON.stringify(there))
      writeJsonFile(path.join(this.root, bidsDescription), description, { mode: sharedMode });
  }
}
