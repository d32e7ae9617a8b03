import { lstatSync } from 'node:fs';
import path from 'node:path';
import { quotePath } from '../../contract/index.js';
import { filesBelow, isRealDirectory, namesIn } from '../../files/index.js';
import { type CaseRecord, readRecord } from '../case/index.js';
import { UsageError } from '../errors.js';
import { recordName } from '../output-names.js';

/** The directory for data that is only of use to the next command, beside those of the cases. */
export const ownDirectory = '.remote-app';

/** Where the files of a result are: in their own directory or, as BIDS derivatives, beside those of other cases. */
export interface CasePlace {
  /** The directory that contains the files. */
  readonly directory: string;
  /** Common prefix of the file names; empty if the directory holds no other files. */
  readonly prefix: string;
  /** The name of the record there. */
  readonly record: string;
}

/** The place of a case that has a directory of its own. @param name with slashes */
export const directoryPlace = (root: string, name: string): CasePlace => ({
  directory: path.join(root, name),
  prefix: '',
  record: recordName,
});

/** Sorts records last, because a result without a record is incomplete. */
export const recordsLast =
  ({ record }: CasePlace) =>
  (a: string, b: string): number =>
    Number(a === record) - Number(b === record);

/** What has to be moved to move a result: its directory, or each of its files. */
export function piecesOf(place: CasePlace): { readonly parent: string; readonly names: readonly string[] } {
  const { directory, prefix } = place;
  if (prefix === '') {
    const isThere = lstatSync(directory, { throwIfNoEntry: false }) !== undefined;
    return { parent: path.dirname(directory), names: isThere ? [path.basename(directory)] : [] };
  }
  const names = namesIn(directory).filter((name) => name.startsWith(prefix));
  return { parent: directory, names: names.sort(recordsLast(place)) };
}

/** Whether a place is taken: its directory, or a file with its prefix, exists. */
export const isTaken = (place: CasePlace): boolean => piecesOf(place).names.length > 0;

export const isLink = (target: string): boolean =>
  lstatSync(target, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;

/** A record, with the name and the place of its case. */
export interface PlacedRecord {
  readonly name: string;
  readonly record: CaseRecord;
  readonly place: CasePlace;
}

/**
 * The records of all results below a directory, each of which has a directory of its own. A link may lead to another study, so it
 * is not followed.
 */
export function* recordsOfDirectories(root: string, below = ''): Generator<PlacedRecord> {
  for (const entry of namesIn(path.join(root, below))) {
    const name = below === '' ? entry : `${below}/${entry}`;
    if (name === ownDirectory || !isRealDirectory(path.join(root, name))) continue;
    const place = directoryPlace(root, name);
    const record = readRecord(place.directory);
    if (record) yield { name, record, place };
    else yield* recordsOfDirectories(root, name);
  }
}

/** The directories from the results directory (excluded) down to a place. */
const directoriesTo = (root: string, { directory }: CasePlace): string[] => {
  const parts = path.relative(root, directory).split(path.sep);
  return parts.map((_, at) => path.join(root, ...parts.slice(0, at + 1)));
};

/** The first link on the way from the directory of the results to a place; null if there is none. */
export const linkTo = (root: string, place: CasePlace): string | null =>
  directoriesTo(root, place).find(isLink) ?? null;

/** The error for a link in a path to be written. */
export const throughLink = (link: string): UsageError =>
  new UsageError(`${quotePath(link)} is a link, and results are not written through links; remove it`);

/**
 * @throws UsageError if a result would be written through a link, mixed with another result, or over files that belong to no
 *   record
 */
export function checkPlace(root: string, place: CasePlace, isForced: boolean): void {
  const link = linkTo(root, place);
  if (link !== null) throw throughLink(link);
  const { directory, prefix, record } = place;
  for (const each of directoriesTo(root, place))
    if (each !== directory && readRecord(each) !== null)
      throw new UsageError(
        `${quotePath(each)} has the result of another case; name another directory with -o`,
      );
  if (readRecord(directory, record) !== null) return;
  const { parent, names } = piecesOf(place);
  const [first] = names;
  if (first === undefined) return;
  const target = path.join(parent, first);
  const isWhole = prefix === '';
  if (isWhole && !lstatSync(target).isDirectory())
    throw new UsageError(`${quotePath(target)} is a file where the result would go; move it`);
  if (isWhole && filesBelow(directory).some(({ name }) => name === recordName))
    throw new UsageError(
      `${quotePath(directory)} has results of other cases; name another directory with -o`,
    );
  if (isForced || (isWhole && namesIn(directory).length === 0)) return;
  throw new UsageError(
    `${quotePath(directory)} has files ${isWhole ? '' : `such as '${first}' `}that no record names; move them, ` +
      'or give --force to write the result beside them',
  );
}
