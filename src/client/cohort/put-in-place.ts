import {
  copyFileSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
} from 'node:fs';
import path from 'node:path';
import { quotePath } from '../../contract/index.js';
import {
  filesBelow,
  foldedName,
  freeName,
  hashFile,
  makeDirectory,
  namesIn,
  withoutEnding,
} from '../../files/index.js';
import { type CaseRecord, namesBelow, readRecord } from '../case/index.js';
import { UsageError } from '../errors.js';
import { recordName } from '../output-names.js';

/** The directory, beside those of the cases, with what is only of use to the next command. */
export const ownDirectory = '.remote-app';

/** Where the files of a result are: a directory of its own, or among others, as derivatives of BIDS. */
export interface CasePlace {
  /** The directory with them. */
  readonly directory: string;
  /** What all their names begin with; empty if the directory has no other files. */
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

/** The files of a result, as paths with slashes in their directory, sorted. */
const filesOfPlace = ({ directory, prefix }: CasePlace): string[] =>
  namesBelow(directory).filter((name) => name.startsWith(prefix));

/** Sorts records last: a result without one is not whole. */
const recordsLast =
  ({ record }: CasePlace) =>
  (a: string, b: string): number =>
    Number(a === record) - Number(b === record);

/** What is moved when a result is moved: its directory, or each of its files. */
function piecesOf(place: CasePlace): { readonly parent: string; readonly names: readonly string[] } {
  const { directory, prefix } = place;
  if (prefix === '') {
    const isThere = lstatSync(directory, { throwIfNoEntry: false }) !== undefined;
    return { parent: path.dirname(directory), names: isThere ? [path.basename(directory)] : [] };
  }
  const names = namesIn(directory).filter((name) => name.startsWith(prefix));
  return { parent: directory, names: names.sort(recordsLast(place)) };
}

/** Whether there is anything in a place. */
export const isTaken = (place: CasePlace): boolean => piecesOf(place).names.length > 0;

/** Moves all that is in a place to a new directory. @throws the system's error */
export function moveAway(place: CasePlace, aside: string): void {
  const { parent, names } = piecesOf(place);
  mkdirSync(aside);
  for (const name of names) renameSync(path.join(parent, name), path.join(aside, name));
}

/** Moves a complete result to its place, which is free. @throws the system's error */
export function moveIn(place: CasePlace, complete: string): void {
  const { directory, prefix } = place;
  mkdirSync(prefix === '' ? path.dirname(directory) : directory, { recursive: true });
  if (prefix === '') renameSync(complete, directory);
  else
    for (const name of namesIn(complete).sort(recordsLast(place)))
      renameSync(path.join(complete, name), path.join(directory, name));
}

/** Puts back what `moveAway` had moved, unless the new result was whole in its place by then. @throws the system's error */
export function restore(place: CasePlace, aside: string): void {
  const { directory, prefix, record } = place;
  const isNewWhole = existsSync(path.join(directory, record));
  // Without its record, the old result was still being moved, and its place has the old record.
  if (isNewWhole && (prefix === '' || existsSync(path.join(aside, record)))) return;
  const parent = prefix === '' ? path.dirname(directory) : directory;
  mkdirSync(parent, { recursive: true });
  for (const name of readdirSync(aside).sort(recordsLast(place))) {
    const target = path.join(parent, name);
    if (existsSync(target) && (isNewWhole || prefix === '')) continue;
    rmSync(target, { recursive: true, force: true });
    renameSync(path.join(aside, name), target);
  }
}

export const isLink = (target: string): boolean =>
  lstatSync(target, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;

/** The directories from that of the results down to a place. */
function* directoriesTo(root: string, { directory }: CasePlace): Generator<string> {
  let at = root;
  for (const part of path.relative(root, directory).split(path.sep)) {
    at = path.join(at, part);
    yield at;
  }
}

/** The first link on the way from the directory of the results to a place; null if there is none. */
export function linkTo(root: string, place: CasePlace): string | null {
  for (const each of directoriesTo(root, place)) if (isLink(each)) return each;
  return null;
}

/** @throws UsageError if a result would be written through a link, mixed with another, or over files that no record knows */
export function checkPlace(root: string, place: CasePlace, isForced: boolean): void {
  const link = linkTo(root, place);
  if (link !== null)
    throw new UsageError(
      `${quotePath(link)} is a link, and results are not written through links; remove it`,
    );
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
  const isFile = prefix === '' && !lstatSync(target).isDirectory();
  if (prefix === '' && !isFile && filesBelow(directory).some(({ name }) => name === recordName))
    throw new UsageError(
      `${quotePath(directory)} has results of other cases; name another directory with -o`,
    );
  if (prefix === '' && !isFile && namesIn(directory).length === 0) return;
  if (isForced && !isFile) return;
  const what =
    prefix === ''
      ? `${quotePath(directory)} has files`
      : `${quotePath(directory)} has files such as '${first}'`;
  throw new UsageError(
    isFile
      ? `${quotePath(target)} is a file where the result would go; move it`
      : `${what} that no record names; move them, or give --force to write the result beside them`,
  );
}

/** Whether a file in a directory is an output as its record has it. */
export async function isUnchanged(
  directory: string,
  output: CaseRecord['outputs'][number],
): Promise<boolean> {
  const target = path.join(directory, output.name);
  const stats = lstatSync(target, { throwIfNoEntry: false });
  if (!stats?.isFile() || stats.size !== output.size) return false;
  return (await hashFile(target)).sha256 === output.sha256;
}

/** What a file belongs to: the store of Zarr that it is a part of, or itself. */
function unitOf(name: string): string {
  const parts = name.split('/');
  const at = parts.findIndex((part) => /\.zarr$/i.test(part));
  return at < 0 ? name : parts.slice(0, at + 1).join('/');
}

/** `mask_edited.nii.gz` of `mask.nii.gz`. */
function editedName(unit: string): string {
  const base = path.posix.basename(unit);
  const volume = withoutEnding(base);
  const stem = volume === base ? path.posix.basename(base, path.posix.extname(base)) : volume;
  return path.posix.join(path.posix.dirname(unit), `${stem}_edited${base.slice(stem.length)}`);
}

/** Links a file, or copies it where the file system has no hard links. */
function link(from: string, to: string): void {
  makeDirectory(path.dirname(to));
  try {
    linkSync(from, to);
  } catch {
    copyFileSync(from, to);
  }
}

/** Whether something has this path, or a file is where it needs a directory. */
function isObstructed(directory: string, name: string): boolean {
  const parts = name.split('/');
  return parts.some((_, end) => {
    const stats = lstatSync(path.join(directory, ...parts.slice(0, end + 1)), { throwIfNoEntry: false });
    return stats !== undefined && (end === parts.length - 1 || !stats.isDirectory());
  });
}

/**
 * Adds to a complete result what a person has put into its place, or changed there: nothing of that is ever replaced. A changed output
 * gets a name that says so, `mask_edited.nii.gz`, unless the result is the one that it was drawn on: then it keeps its name, or gets it
 * back, in place of the same output as the app made it. Other files keep their names, unless the result needs them.
 * @param complete the directory with the new result
 * @param isForced whether the same result is computed once more, because a person wants it as the app makes it
 * @returns what the record of the new result says of changed outputs
 */
export async function keepFiles(
  place: CasePlace,
  complete: string,
  record: CaseRecord,
  isForced: boolean,
): Promise<CaseRecord['edited']> {
  const { directory } = place;
  const before = readRecord(directory, place.record);
  const outputs = new Map(before?.outputs.map((each) => [each.name, each]));
  const earlier = new Map(before?.edited.map((each) => [each.name, each]));
  const names = filesOfPlace(place).filter((name) => name !== place.record && name !== before?.log);
  const changed = new Set<string>();
  for (const name of names) {
    const output = outputs.get(name);
    if (output && !(await isUnchanged(directory, output))) changed.add(unitOf(name));
  }
  const isSame = before?.key === record.key && !isForced;
  const edited: CaseRecord['edited'] = [];
  const own = new Set(names.map((name) => foldedName(unitOf(name))));
  const renamed = new Map<string, string>();
  /** A free name for a unit, numbered where it is taken; at the top of the result where a file has the place of its directory. */
  const free = (unit: string): string => {
    const wanted = editedName(unit);
    const folder = path.posix.dirname(wanted);
    const top = isObstructed(complete, `${folder}/${path.posix.basename(complete)}`) ? '.' : folder;
    const at = (base: string) => path.posix.join(top, base);
    const isUsed = (base: string) => isObstructed(complete, at(base)) || own.has(foldedName(at(base)));
    const name = renamed.get(unit) ?? at(freeName(path.posix.basename(wanted), new Map(), isUsed));
    renamed.set(unit, name);
    return name;
  };
  for (const name of names) {
    const unit = unitOf(name);
    const isChanged = changed.has(unit);
    if (!isChanged && outputs.has(name)) continue;
    const source = path.join(directory, name);
    if (isChanged && isSame) {
      rmSync(path.join(complete, name), { force: true });
      link(source, path.join(complete, name));
      continue;
    }
    const isInTheWay = isChanged || isObstructed(complete, name);
    const target = isInTheWay ? free(unit) + name.slice(unit.length) : name;
    link(source, path.join(complete, target));
    const known = earlier.get(name);
    if (isChanged && before) edited.push({ name: target, from: name, key: before.key });
    else if (known) edited.push({ ...known, name: target });
  }
  // The input, or the app, is what it was when a person changed these.
  for (const { name, from, key } of edited) {
    const target = path.join(complete, from);
    if (key !== record.key || isForced || !existsSync(target)) continue;
    rmSync(target);
    copyFileSync(path.join(complete, name), target);
  }
  return edited;
}
