import { closeSync, constants, existsSync, lstatSync, readdirSync, rmSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import path from 'node:path';
import { quotePath, resultName, tableName } from '../../contract/index.js';
import {
  freeName,
  hashFile,
  isRealDirectory,
  lockPath,
  makeDirectory,
  namesIn,
  removePartials,
  syncDirectory,
  syncTree,
} from '../../files/index.js';
import { type CaseRecord, digestOf, readRecord, stampOf } from '../case/index.js';
import { UsageError, writing } from '../errors.js';
import { goOnLater, withoutRoom } from './failures.js';
import { keepFiles } from './keep-files.js';
import { LastLooks, ownDirectory } from './last-looks.js';
import { CaseDirectories, type CasePlace, checkPlace, isLink, type Layout, linkTo } from './layout.js';

/** What became of the outputs that a record names; `unknown` if nobody has looked. */
export type OutputsState = 'intact' | 'edited' | 'missing' | 'unknown';

/**
 * Refuses a directory of results in which something that is written by this program, and not by a person, leads elsewhere: files there
 * would be moved and removed.
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
  if (link !== undefined)
    throw new UsageError(
      `${quotePath(link)} is a link, and results are not written through links; remove it`,
    );
  if (existsSync(own) && !isOwn) throw new UsageError(`${quotePath(own)} is not a directory; move it`);
}

/** The directory that the results of a cohort go to, and what is known of the cases in it. */
export class CohortDirectory implements Disposable {
  readonly own: string;
  readonly looks: LastLooks;

  private constructor(
    readonly directory: string,
    private readonly layout: Layout,
    private readonly lock: number | null,
  ) {
    this.own = path.join(directory, ownDirectory);
    this.looks = new LastLooks(directory);
  }

  /**
   * Makes the directory if it is missing, and locks it. Removes what a command that was killed left in its own directory, and
   * puts back a result that it was replacing.
   * @throws UsageError if another command works on it, it cannot be written, or what is ours in it is a link
   */
  static async open(
    directory: string,
    layout: Layout = new CaseDirectories(directory),
  ): Promise<CohortDirectory> {
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
    const cohort = new CohortDirectory(path.resolve(directory), layout, isLocked ? outcome.descriptor : null);
    // Without a lock, they may be those of a command that is running.
    if (isLocked) await cohort.#clear();
    return cohort;
  }

  async #clear(): Promise<void> {
    const old = path.join(this.own, 'old');
    for (const name of namesIn(old)) this.layout.restore(name, path.join(old, name));
    for (const name of readdirSync(this.own)) {
      if (name === 'old' || name.startsWith('new-') || name.endsWith('.partial'))
        await rm(path.join(this.own, name), { recursive: true, force: true });
    }
    removePartials(path.join(this.directory, tableName));
  }

  /** Where the result of a case is. */
  directoryOf(name: string): string {
    return this.#placeOf(name).directory;
  }

  #placeOf(name: string): CasePlace {
    const place = this.layout.placeOf(name);
    if (place === null) throw new Error(`The case ${name} has no place`);
    return place;
  }

  /** The records of the results that are there, by the names of their cases, without some of these. */
  records(without: ReadonlySet<string>): Map<string, CaseRecord> {
    return this.layout.records(without);
  }

  /** The digest of a case's inputs, if it was computed before and they have not been touched since. */
  seenDigest(name: string, stamp: string): string | null {
    const seen = this.looks.get(name);
    return seen.stamp === stamp ? seen.digest : null;
  }

  /** The record of a case; null if there is none, and for a link. */
  record(name: string): CaseRecord | null {
    const place = this.#placeOf(name);
    return linkTo(this.directory, place) === null ? readRecord(place.directory, place.record) : null;
  }

  #stampOfOutputs(name: string, record: CaseRecord): string | null {
    try {
      return stampOf(record.outputs.map((each) => path.join(this.directoryOf(name), each.name)));
    } catch {
      return null;
    }
  }

  /**
   * Whether the outputs of a case are those that its record names.
   * @param how `seen` believes what an earlier look found, and otherwise does not know; `read` reads what was touched since; `verify`
   *   reads everything
   */
  async stateOfOutputs(
    name: string,
    record: CaseRecord,
    how: 'seen' | 'read' | 'verify',
  ): Promise<OutputsState> {
    const stamp = this.#stampOfOutputs(name, record);
    if (how !== 'verify' && stamp !== null && this.looks.get(name).outputs === stamp) return 'intact';
    if (how === 'seen') return 'unknown';
    const there = record.outputs.filter((each) => existsSync(path.join(this.directoryOf(name), each.name)));
    for (const output of there) if (!(await this.#isUnchanged(name, output))) return 'edited';
    if (there.length < record.outputs.length) return 'missing';
    if (stamp !== null) this.looks.note(name, { outputs: stamp });
    return 'intact';
  }

  async #isUnchanged(name: string, output: CaseRecord['outputs'][number]): Promise<boolean> {
    const target = path.join(this.directoryOf(name), output.name);
    const stats = lstatSync(target, { throwIfNoEntry: false });
    if (!stats?.isFile() || stats.size !== output.size) return false;
    return (await hashFile(target)).sha256 === output.sha256;
  }

  /** Names of the outputs of an earlier result that a person has changed, and that are beside this one. */
  keptFiles(name: string, record: CaseRecord): string[] {
    return record.kept.filter((each) => existsSync(path.join(this.directoryOf(name), each)));
  }

  /** The same, with the outputs of this result that a person has changed. */
  async editedFiles(name: string, record: CaseRecord): Promise<string[]> {
    const edited = this.keptFiles(name, record);
    for (const output of record.outputs) {
      const isThere = existsSync(path.join(this.directoryOf(name), output.name));
      if (isThere && !(await this.#isUnchanged(name, output))) edited.push(output.name);
    }
    return edited;
  }

  /** @throws UsageError if a result of this case could replace files that are not known to be an earlier result */
  checkReplaceable(name: string, isForced: boolean): void {
    checkPlace(this.directory, this.#placeOf(name), isForced);
  }

  get #stale(): string {
    return path.join(this.own, 'stale');
  }

  /**
   * Moves the result of a case, with all that is beside it, to where results are kept that do not belong to their inputs any more.
   * @returns the new place, relative to the directory of the results
   * @throws the system's error
   */
  setAside(name: string): string {
    const free = freeName(name, new Map(), (each) => existsSync(path.join(this.#stale, each)));
    this.layout.moveAway(name, path.join(this.#stale, free));
    return path.join(ownDirectory, 'stale', free);
  }

  /** Puts a result back that was set aside, if it is the one of this key and nothing has its place. Null if there is none. */
  takeBack(name: string, key: string): CaseRecord | null {
    if (this.layout.isThere(name)) return null;
    for (const each of namesIn(this.#stale)) {
      const aside = path.join(this.#stale, each);
      const record = this.layout.recordAside(name, aside);
      if (record?.key !== key) continue;
      this.layout.moveBack(name, aside);
      return record;
    }
    return null;
  }

  /**
   * Takes the result of a case.
   * @param how.digest that of the inputs that it was computed from
   * @param how.isForced whether it replaces what a person has put into its place
   * @param fetch saves the result and its record in a private directory, from which they get their place all at once
   * @throws WriteError
   */
  async receive(
    name: string,
    how: { readonly digest: string; readonly isForced: boolean },
    fetch: (directory: string) => Promise<unknown>,
  ): Promise<CaseRecord | null> {
    const own = await writing(this.directory, goOnLater, () => mkdtemp(path.join(this.own, 'new-')));
    const files = path.join(own, 'files');
    try {
      await fetch(files).catch((error: unknown) => {
        throw withoutRoom(this.directoryOf(name), error);
      });
      return await writing(this.directoryOf(name), goOnLater, async () => {
        await rm(path.join(files, resultName));
        this.layout.rename(name, files);
        return this.#putInPlace(name, files, how);
      });
    } finally {
      await rm(own, { recursive: true, force: true });
    }
  }

  /**
   * Puts a complete result in its place, all at once. What a person has put there or changed stays, unless it was drawn on the result
   * of another input: then all of that is set aside.
   * @param complete a directory with the files and the record
   */
  async #putInPlace(
    name: string,
    complete: string,
    { digest, isForced }: { readonly digest: string; readonly isForced: boolean },
  ): Promise<CaseRecord | null> {
    const place = this.#placeOf(name);
    const old = path.join(this.own, 'old', name);
    const before = this.record(name);
    const edited = before ? await this.editedFiles(name, before) : [];
    if (before && edited.length > 0 && digestOf(before.inputs) !== digest) this.setAside(name);
    else if (this.layout.isThere(name)) {
      const known = new Map(before?.outputs.map((each) => [each.name, each]));
      const isUnchanged = async (each: string) => {
        const output = known.get(each);
        return output !== undefined && (await this.#isUnchanged(name, output));
      };
      if (statSync(place.directory).isDirectory())
        await keepFiles(place, complete, edited, isForced, isUnchanged);
    }
    await syncTree(complete);
    if (this.layout.isThere(name)) this.layout.moveAway(name, old);
    this.layout.moveIn(name, complete);
    await syncDirectory(path.dirname(place.directory));
    if (place.prefix !== '') await syncDirectory(place.directory);
    rmSync(old, { recursive: true, force: true });
    const record = this.record(name);
    const stamp = record && this.#stampOfOutputs(name, record);
    if (stamp !== null) this.looks.note(name, { outputs: stamp });
    return record;
  }

  /** Writes down what was seen of these cases, and of those whose results are there. */
  saveSeen(names: ReadonlySet<string>): void {
    this.looks.save((name) => names.has(name) || this.layout.isThere(name));
  }

  [Symbol.dispose](): void {
    if (this.lock !== null) closeSync(this.lock);
  }
}
