import { closeSync, constants, existsSync, lstatSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import path from 'node:path';
import { quotePath } from '../../contract/index.js';
import {
  isRealDirectory,
  lockPath,
  makeDirectory,
  namesIn,
  readJsonFile,
  removePartials,
  replaceFile,
  syncDirectory,
  syncTree,
  writeJsonFile,
} from '../../files/index.js';
import { areUntouched, type CaseRecord, readRecord, stampToRecord, writeRecord } from '../case/index.js';
import { UsageError } from '../errors.js';
import { tableName } from '../output-names.js';
import {
  type CasePlace,
  isLink,
  isTaken,
  linkTo,
  ownDirectory,
  piecesOf,
  recordsLast,
  throughLink,
} from './case-place.js';
import { isUnchanged, keepFiles } from './edited-files.js';

/** What to do once the disk has free space. */
export const goOnLater = 'give the same command again: finished cases are kept';

/** Moves everything in a place to a new directory. @throws the system's error */
function moveAway(place: CasePlace, aside: string): void {
  const { parent, names } = piecesOf(place);
  mkdirSync(aside);
  for (const name of names) replaceFile(path.join(parent, name), path.join(aside, name));
}

/** Moves a complete result to its place, which is free. @throws the system's error */
function moveIn(place: CasePlace, complete: string): void {
  const { directory, prefix } = place;
  mkdirSync(piecesOf(place).parent, { recursive: true });
  if (prefix === '') replaceFile(complete, directory);
  else
    for (const name of namesIn(complete).sort(recordsLast(place)))
      replaceFile(path.join(complete, name), path.join(directory, name));
}

/** Puts back what `moveAway` moved, unless the new result had reached its place completely. @throws the system's error */
function restore(place: CasePlace, aside: string): void {
  const { directory, prefix, record } = place;
  const isNewWhole = existsSync(path.join(directory, record));
  // If the record was not moved, the move of the old result was interrupted, and the record in its place is still the old one.
  if (isNewWhole && (prefix === '' || existsSync(path.join(aside, record)))) return;
  const { parent } = piecesOf(place);
  mkdirSync(parent, { recursive: true });
  for (const name of readdirSync(aside).sort(recordsLast(place))) {
    const target = path.join(parent, name);
    if (existsSync(target) && (isNewWhole || prefix === '')) continue;
    rmSync(target, { recursive: true, force: true });
    replaceFile(path.join(aside, name), target);
  }
}

/**
 * Removes an `old-*` directory. Its files are removed first: as long as one is left, even after a power cut, their original place
 * is known.
 */
async function removeReplaced(old: string): Promise<void> {
  await rm(path.join(old, 'files'), { recursive: true, force: true });
  await syncDirectory(old);
  await rm(old, { recursive: true, force: true });
}

/** The original place of the files in an `old-*` directory, relative to the results directory; null if it cannot be read. */
function placeIn(old: string): CasePlace | null {
  try {
    const place = readJsonFile(path.join(old, 'place.json')) as Partial<CasePlace> | undefined;
    const { directory, prefix, record } = place ?? {};
    const isPlace = [directory, prefix, record].every((each) => typeof each === 'string');
    return isPlace ? (place as CasePlace) : null;
  } catch {
    return null;
  }
}

/**
 * Refuses a results directory in which anything managed by this program is a link: files elsewhere would be moved and removed.
 * @throws UsageError
 */
function refuseLinks(directory: string): void {
  const own = path.join(directory, ownDirectory);
  const isOwn = isRealDirectory(own);
  const written = [
    own,
    path.join(directory, tableName),
    ...(isOwn ? namesIn(own).map((name) => path.join(own, name)) : []),
  ];
  const link = written.find(isLink);
  if (link !== undefined) throw throughLink(link);
  if (existsSync(own) && !isOwn) throw new UsageError(`${quotePath(own)} is not a directory; move it`);
}

/** The directory for the results of a cohort. */
export class ResultsDirectory implements Disposable {
  readonly own: string;

  private constructor(
    readonly directory: string,
    private readonly lock: number | null,
  ) {
    this.own = path.join(directory, ownDirectory);
  }

  /**
   * Creates the directory if necessary, and locks it. Removes what a killed command left in its private directories, and puts
   * back a result that it was replacing.
   * @throws UsageError if another command uses the directory, it cannot be written, or this program's own part of it is a link
   */
  static async open(directory: string): Promise<ResultsDirectory> {
    const own = path.join(directory, ownDirectory);
    refuseLinks(directory);
    makeDirectory(own);
    const outcome = lockPath(own, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    if (outcome === 'taken') {
      throw new UsageError(
        `Another command writes results to ${quotePath(directory)}; wait for it, or name another one`,
      );
    }
    const isLocked = typeof outcome === 'object' && 'descriptor' in outcome;
    const results = new ResultsDirectory(path.resolve(directory), isLocked ? outcome.descriptor : null);
    // Without a lock, these may belong to a running command.
    if (isLocked) await results.#clear();
    return results;
  }

  async #clear(): Promise<void> {
    for (const name of readdirSync(this.own)) {
      const target = path.join(this.own, name);
      if (name.startsWith('old-') && !this.#putBack(target)) continue;
      if (name.startsWith('old-')) await removeReplaced(target);
      else if (/^new-|\.partial$/.test(name)) await rm(target, { recursive: true, force: true });
    }
    removePartials(path.join(this.directory, tableName));
  }

  /** Puts back a result that was being replaced. False if its place is unknown: then it stays where it is. */
  #putBack(old: string): boolean {
    const files = path.join(old, 'files');
    if (!existsSync(files)) return true;
    const place = placeIn(old);
    if (place === null) return false;
    const directory = path.join(this.directory, place.directory);
    if (path.relative(this.directory, directory).startsWith('..')) return false;
    restore({ ...place, directory }, files);
    return true;
  }

  /** Whether a file exists in a place. @param name relative to the directory of the place */
  has({ directory }: CasePlace, name: string): boolean {
    return existsSync(path.join(directory, name));
  }

  /** The record of a result; null if there is none, or it is behind a link. */
  readRecord(place: CasePlace): CaseRecord | null {
    return linkTo(this.directory, place) === null ? readRecord(place.directory, place.record) : null;
  }

  /**
   * Compares the outputs of a result with its record. They are read only if somebody may have changed them.
   * @returns the names of outputs that the user has edited, and whether any output is missing
   */
  async compare(
    { directory }: CasePlace,
    { outputs, stamps }: CaseRecord,
  ): Promise<{ readonly changed: readonly string[]; readonly isMissing: boolean }> {
    const paths = outputs.map(({ name }) => path.join(directory, name));
    if (areUntouched(paths, stamps.outputs)) return { changed: [], isMissing: false };
    const changed: string[] = [];
    let isMissing = false;
    for (const output of outputs) {
      if (lstatSync(path.join(directory, output.name), { throwIfNoEntry: false }) === undefined)
        isMissing = true;
      else if (!(await isUnchanged(directory, output))) changed.push(output.name);
    }
    return { changed, isMissing };
  }

  /** A directory in which a result is completed. It is removed with everything left in it. */
  async privateDirectory(): Promise<AsyncDisposable & { readonly path: string }> {
    const own = await mkdtemp(path.join(this.own, 'new-'));
    return { path: own, [Symbol.asyncDispose]: () => rm(own, { recursive: true, force: true }) };
  }

  /**
   * Prepares a complete result for its place: carries over files that the user edited there, and adds the case name and the file
   * stamps to the record.
   * @param inputs the stamp of the inputs, for the record
   * @param isForced whether the result is computed again although it exists
   */
  async prepareForPlace(
    name: string,
    place: CasePlace,
    complete: string,
    { inputs, isForced }: { readonly inputs: string | null; readonly isForced: boolean },
  ): Promise<void> {
    const made = readRecord(complete, place.record);
    if (made === null) return;
    const isThere = isTaken(place) && isRealDirectory(place.directory);
    const edited = isThere ? await keepFiles(place, complete, made, isForced) : [];
    // Moving files one by one changes their times.
    const outputs =
      place.prefix === ''
        ? stampToRecord(
            made.outputs.map((each) => path.join(complete, each.name)),
            0,
          )
        : null;
    writeRecord(complete, { ...made, case: name, edited, stamps: { inputs, outputs } }, place.record);
  }

  /** Puts a complete result in its place, all at once. */
  async putInPlace(place: CasePlace, complete: string): Promise<void> {
    await syncTree(complete);
    let old: string | null = null;
    if (isTaken(place)) {
      old = await mkdtemp(path.join(this.own, 'old-'));
      const directory = path.relative(this.directory, place.directory);
      writeJsonFile(path.join(old, 'place.json'), { ...place, directory });
      await syncDirectory(this.own);
      moveAway(place, path.join(old, 'files'));
    }
    moveIn(place, complete);
    await syncDirectory(path.dirname(place.directory));
    if (place.prefix !== '') await syncDirectory(place.directory);
    if (old !== null) await removeReplaced(old);
  }

  [Symbol.dispose](): void {
    if (this.lock !== null) closeSync(this.lock);
  }
}
