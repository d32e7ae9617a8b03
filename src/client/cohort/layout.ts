import { lstatSync, mkdirSync, readdirSync, renameSync } from 'node:fs';
import path from 'node:path';
import { quotePath, recordName } from '../../contract/index.js';
import { isRealDirectory, namesIn } from '../../files/index.js';
import { type CaseRecord, namesBelow, readRecord } from '../case/index.js';
import { UsageError } from '../errors.js';
import { ownDirectory } from './last-looks.js';

/** How results lie in their directory: each case in one of its own, or as derivatives of BIDS. */
export type LayoutName = 'cases' | 'bids';

/** Where the files of a result are. */
export interface CasePlace {
  /** The directory with them. */
  readonly directory: string;
  /** What all their names begin with; empty if the directory has no other files. */
  readonly prefix: string;
  /** The name of the record there. */
  readonly record: string;
}

/** The files of a result, as paths with slashes in their directory, sorted. */
export const filesOfPlace = ({ directory, prefix }: CasePlace): string[] =>
  namesBelow(directory).filter((name) => name.startsWith(prefix));

/** Where the results of cases lie below a directory, and how they are moved there and away. */
export interface Layout {
  /** Where the result of a case is, or goes; null for a case that nothing is known of. */
  placeOf(name: string): CasePlace | null;
  /** The records of the results that are there, by the names of their cases, without some of these. Links are not followed. */
  records(without?: ReadonlySet<string>): Map<string, CaseRecord>;
  /** Whether there is anything in the place of a case. */
  isThere(name: string): boolean;
  /** Gives the files of a complete result the names that they have in their place. @throws the system's error */
  rename(name: string, complete: string): void;
  /** Moves a complete result to its place, which is free. @throws the system's error */
  moveIn(name: string, complete: string): void;
  /** Moves all that a case has to a directory that is not there yet. @throws the system's error */
  moveAway(name: string, aside: string): void;
  /** The record of what `moveAway` has moved; null if it is not of this case. */
  recordAside(name: string, aside: string): CaseRecord | null;
  /** Puts that back. @throws the system's error */
  moveBack(name: string, aside: string): void;
  /** Puts back what a command had moved away that was killed before the new result was whole in its place. */
  restore(name: string, aside: string): void;
}

/** A directory for each case, which has its name. */
export class CaseDirectories implements Layout {
  constructor(private readonly root: string) {}

  placeOf(name: string): CasePlace {
    return { directory: path.join(this.root, name), prefix: '', record: recordName };
  }

  records(without: ReadonlySet<string> = new Set()): Map<string, CaseRecord> {
    const records = new Map<string, CaseRecord>();
    for (const name of namesIn(this.root)) {
      if (name === ownDirectory || without.has(name)) continue;
      const { directory } = this.placeOf(name);
      const record = isRealDirectory(directory) ? readRecord(directory) : null;
      if (record) records.set(name, record);
    }
    return records;
  }

  isThere(name: string): boolean {
    return lstatSync(this.placeOf(name).directory, { throwIfNoEntry: false }) !== undefined;
  }

  rename(): void {}

  moveIn(name: string, complete: string): void {
    renameSync(complete, this.placeOf(name).directory);
  }

  moveAway(name: string, aside: string): void {
    mkdirSync(path.dirname(aside), { recursive: true });
    renameSync(this.placeOf(name).directory, aside);
  }

  recordAside(_name: string, aside: string): CaseRecord | null {
    return readRecord(aside);
  }

  moveBack(name: string, aside: string): void {
    renameSync(aside, this.placeOf(name).directory);
  }

  restore(name: string, aside: string): void {
    if (!this.isThere(name)) this.moveBack(name, aside);
  }
}

export const isLink = (target: string): boolean =>
  lstatSync(target, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;

/** The first link on the way from the directory of the results to a place; null if there is none. */
export function linkTo(root: string, { directory }: CasePlace): string | null {
  let at = root;
  for (const part of path.relative(root, directory).split(path.sep)) {
    at = path.join(at, part);
    if (isLink(at)) return at;
  }
  return null;
}

/** @throws UsageError if a result could replace files that are not known to be an earlier one */
export function checkPlace(root: string, place: CasePlace, isForced: boolean): void {
  const link = linkTo(root, place);
  if (link !== null)
    throw new UsageError(
      `${quotePath(link)} is a link, and results are not written through links; remove it`,
    );
  const { directory, prefix, record } = place;
  if (isForced || readRecord(directory, record) !== null) return;
  const stats = lstatSync(directory, { throwIfNoEntry: false });
  if (!stats) return;
  const there = stats.isDirectory()
    ? readdirSync(directory).find((name) => name.startsWith(prefix))
    : path.basename(directory);
  if (there === undefined) return;
  const what =
    prefix === '' || !stats.isDirectory()
      ? `${quotePath(directory)} has files`
      : `${quotePath(directory)} has files such as '${there}'`;
  throw new UsageError(
    `${what} that no record names; move them, or give --force to write the result beside them`,
  );
}
