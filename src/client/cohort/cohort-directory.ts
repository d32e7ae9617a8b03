import {
  closeSync,
  constants,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import path from 'node:path';
import { quotePath, recordName, resultName, tableName } from '../../contract/index.js';
import {
  freeName,
  hashFile,
  lockPath,
  makeDirectory,
  readSmallFile,
  removePartials,
  syncDirectory,
  syncTree,
  writeJsonFile,
} from '../../files/index.js';
import { type CaseRecord, namesBelow, readRecord, stampOf } from '../case/index.js';
import { UsageError, writing } from '../errors.js';

/** The directory, beside those of the cases, with what is only of use to the next command. */
export const ownDirectory = '.remote-app';

/** What the last look at a case found, by the times and identities of its files: it saves reading them again. */
interface LastLook {
  /** Of the inputs: the stamp of their files, and the hash of their contents. */
  readonly stamp: string | null;
  readonly digest: string | null;
  /** The stamp of the outputs when their hashes were those of the record. */
  readonly outputs: string | null;
}

const neverLooked: LastLook = { stamp: null, digest: null, outputs: null };

/** What to do after a fault of the disk. */
const again = 'run the command again';

/** Largest file of what was seen, in bytes: some 100,000 cases. */
const maxSeen = 32 << 20;

const textOrNull = (value: unknown): string | null => (typeof value === 'string' ? value : null);

/** What was seen, as far as it has the form that is expected: it can always be found out again. */
function readSeen(file: string): Map<string, LastLook> {
  const seen = new Map<string, LastLook>();
  try {
    const document = JSON.parse(readSmallFile(file, maxSeen));
    for (const [name, [stamp, digest, outputs]] of Object.entries<unknown[]>(document)) {
      seen.set(name, {
        stamp: textOrNull(stamp),
        digest: textOrNull(digest),
        outputs: textOrNull(outputs),
      });
    }
  } catch {
    // A new directory, or a damaged file: everything is read.
  }
  return seen;
}

/** The directory that the results of a cohort go to, and what is known of the cases in it. */
export class CohortDirectory implements Disposable {
  readonly own: string;
  readonly #seen: Map<string, LastLook>;
  #isChanged = false;

  private constructor(
    readonly directory: string,
    private readonly lock: number | null,
  ) {
    this.own = path.join(directory, ownDirectory);
    this.#seen = readSeen(path.join(this.own, 'seen.json'));
  }

  /**
   * Makes the directory if it is missing, and locks it. Removes what a command that was killed left in its own directory, and
   * puts back a result that it was replacing.
   * @throws UsageError if another command works on it, or it cannot be written
   */
  static async open(directory: string): Promise<CohortDirectory> {
    const own = path.join(directory, ownDirectory);
    makeDirectory(own);
    const outcome = lockPath(own, constants.O_RDONLY | constants.O_DIRECTORY);
    if (outcome === 'taken') {
      throw new UsageError(
        `Another command writes results to ${quotePath(directory)}; wait for it, or name another one`,
      );
    }
    const isLocked = typeof outcome === 'object' && 'descriptor' in outcome;
    const cohort = new CohortDirectory(path.resolve(directory), isLocked ? outcome.descriptor : null);
    // Without a lock, they may be those of a command that is running.
    if (isLocked) await cohort.#clear();
    return cohort;
  }

  async #clear(): Promise<void> {
    const old = path.join(this.own, 'old');
    for (const name of existsSync(old) ? readdirSync(old) : []) {
      if (!existsSync(this.directoryOf(name))) renameSync(path.join(old, name), this.directoryOf(name));
    }
    for (const name of readdirSync(this.own)) {
      if (name === 'old' || name.startsWith('new-') || name.endsWith('.partial'))
        await rm(path.join(this.own, name), { recursive: true, force: true });
    }
    removePartials(path.join(this.directory, tableName));
  }

  /** Where the result of a case is. */
  directoryOf(name: string): string {
    return path.join(this.directory, name);
  }

  /** The digest of a case's inputs, if it was computed before and they have not been touched since. */
  seenDigest(name: string, stamp: string): string | null {
    const seen = this.#seen.get(name);
    return seen?.stamp === stamp ? seen.digest : null;
  }

  sawInputs(name: string, stamp: string, digest: string): void {
    this.#note(name, { stamp, digest });
  }

  #note(name: string, seen: Partial<LastLook>): void {
    this.#seen.set(name, { ...(this.#seen.get(name) ?? neverLooked), ...seen });
    this.#isChanged = true;
  }

  /** The record of a case; null if there is none. */
  record(name: string): CaseRecord | null {
    return readRecord(this.directoryOf(name));
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
   * @param how `seen` believes what an earlier look found, and otherwise says no; `read` reads what was touched since; `verify`
   *   reads everything
   */
  async hasOutputs(name: string, record: CaseRecord, how: 'seen' | 'read' | 'verify'): Promise<boolean> {
    const stamp = this.#stampOfOutputs(name, record);
    if (stamp === null) return false;
    if (how !== 'verify' && this.#seen.get(name)?.outputs === stamp) return true;
    if (how === 'seen') return false;
    for (const output of record.outputs) {
      if (!(await this.#isUnchanged(name, output))) return false;
    }
    this.#note(name, { outputs: stamp });
    return true;
  }

  async #isUnchanged(name: string, output: CaseRecord['outputs'][number]): Promise<boolean> {
    const target = path.join(this.directoryOf(name), output.name);
    if (statSync(target, { throwIfNoEntry: false })?.size !== output.size) return false;
    return (await hashFile(target)).sha256 === output.sha256;
  }

  /** @throws UsageError if a result of this case could replace files that are not known to be an earlier result */
  checkReplaceable(name: string, isForced: boolean): void {
    const directory = this.directoryOf(name);
    if (isForced || this.record(name) !== null) return;
    const stats = statSync(directory, { throwIfNoEntry: false });
    if (!stats || (stats.isDirectory() && readdirSync(directory).length === 0)) return;
    throw new UsageError(
      `${quotePath(directory)} has files that no record names; move them, or give --force to write the result beside them`,
    );
  }

  /**
   * Takes the result of a case.
   * @param fetch saves the result and its record in a private directory, from which they get their place all at once
   * @throws WriteError
   */
  async receive(
    name: string,
    isForced: boolean,
    fetch: (directory: string) => Promise<unknown>,
  ): Promise<CaseRecord | null> {
    const own = await writing(this.directory, again, () => mkdtemp(path.join(this.own, 'new-')));
    const files = path.join(own, 'files');
    try {
      await fetch(files);
      return await writing(files, again, async () => {
        await rm(path.join(files, resultName));
        return this.#putInPlace(name, files, isForced);
      });
    } finally {
      await rm(own, { recursive: true, force: true });
    }
  }

  /**
   * Puts a complete result in its place, all at once. Files there that the last record does not know stay, under another
   * name if the result has theirs; with `isForced` the result's replace them.
   * @param complete a directory with the files and the record
   */
  async #putInPlace(name: string, complete: string, isForced: boolean): Promise<CaseRecord | null> {
    const place = this.directoryOf(name);
    const old = path.join(this.own, 'old', name);
    if (existsSync(place)) {
      await this.#keepForeign(name, complete, isForced);
      mkdirSync(path.dirname(old), { recursive: true });
      await syncTree(complete);
      renameSync(place, old);
    } else await syncTree(complete);
    renameSync(complete, place);
    await syncDirectory(this.directory);
    rmSync(old, { recursive: true, force: true });
    const record = this.record(name);
    const stamp = record && this.#stampOfOutputs(name, record);
    if (stamp !== null) this.#note(name, { outputs: stamp });
    return record;
  }

  /** Adds to a complete result the files that are in its place and that the record there does not know as they are. */
  async #keepForeign(name: string, complete: string, isForced: boolean): Promise<void> {
    const place = this.directoryOf(name);
    if (!statSync(place).isDirectory()) return;
    const earlier = this.record(name);
    const known = new Map(earlier?.outputs.map((each) => [each.name, each]));
    const counts = new Map<string, number>();
    for (const each of namesBelow(place)) {
      const output = known.get(each);
      if (each === recordName || each === earlier?.log || (output && (await this.#isUnchanged(name, output))))
        continue;
      const isTaken = (target: string) => existsSync(path.join(complete, path.dirname(each), target));
      if (isForced && isTaken(path.basename(each))) continue;
      const free = freeName(path.basename(each), counts, isTaken);
      const target = path.join(complete, path.dirname(each), free);
      makeDirectory(path.dirname(target));
      try {
        linkSync(path.join(place, each), target);
      } catch {
        // A file system without hard links.
        await copyFile(path.join(place, each), target);
      }
    }
  }

  /** Writes down what was seen of these cases; it is forgotten of all others. */
  saveSeen(names: readonly string[]): void {
    if (!this.#isChanged) return;
    const rows = names.flatMap((name) => {
      const seen = this.#seen.get(name);
      return seen ? [[name, [seen.stamp, seen.digest, seen.outputs]]] : [];
    });
    // Nothing is lost if a power cut damages it.
    writeJsonFile(path.join(this.own, 'seen.json'), Object.fromEntries(rows), { isKept: false });
    this.#isChanged = false;
  }

  [Symbol.dispose](): void {
    if (this.lock !== null) closeSync(this.lock);
  }
}
