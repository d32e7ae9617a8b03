import {
  closeSync,
  existsSync,
  lstatSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  type Stats,
  statSync,
} from 'node:fs';
import { mkdir, mkdtemp, open, readdir, rename, rm, rmdir } from 'node:fs/promises';
import path from 'node:path';
import type { Writable } from 'node:stream';
import { quotePath, resultName } from '../../contract/index.js';
import { errorCode, faultWithoutPath, isOutOfInodes, makeDirectory, replaceFile } from '../../files/index.js';
import { UsageError } from '../errors.js';
import { numberedDirectory } from '../output-names.js';

/** A directory that a result is to be saved in. */
export interface OutputDirectory {
  /** As a person wrote it. */
  readonly directory: string;
  /** What to do if it contains other files: use a numbered directory beside it, refuse, or write into it anyway. */
  readonly taken: 'number' | 'refuse' | 'replace';
  /** Whether its maker removes it unless the result is complete: an archive that cannot be extracted is not kept there. */
  readonly isPrivate?: boolean;
  /** Whether the archive is left out once all of it is extracted. */
  readonly withoutArchive?: boolean | undefined;
}

/** Where a result goes: into a directory, or as a zip to a stream. */
export type Destination = OutputDirectory | { readonly stream: Writable };

/** The names of private directories begin with this; six random characters follow. */
const privatePrefix = '.remote-app-';

/** Files of version control, of file managers and of file systems, and private directories: these are no results. */
const ofNobody =
  /^(?:\.git(?:keep|ignore)|\.remote-app-\w{6}|\.DS_Store|\._.*|\.nfs.*|Thumbs\.db|desktop\.ini|lost\+found)$/;

/**
 * Whether there is anything at a path that a result could replace or be mixed with. A directory that cannot be read may have
 * files.
 */
export function hasFiles(directory: string): boolean {
  try {
    return readdirSync(directory).some((name) => !ofNobody.test(name));
  } catch {
    return statSync(directory, { throwIfNoEntry: false }) !== undefined;
  }
}

/** The first directory without files among `Output`, `Output-2`, `Output-3` and so on. */
function firstFree(directory: string, number = 1): { readonly place: string; readonly number: number } {
  const target = path.resolve(directory);
  for (let each = number; ; each += 1) {
    const place = numberedDirectory(target, each);
    if (!hasFiles(place)) return { place, number: each };
  }
}

/**
 * The directory that a result would go to now. Determined before anything is sent, so that no job ends in a refusal.
 * @throws UsageError for a directory with other files, if these may not be replaced
 */
export function foreseeOutput({ directory, taken }: OutputDirectory): string {
  const target = path.resolve(directory);
  if (taken === 'replace' || !hasFiles(target)) return target;
  if (taken === 'number') return firstFree(directory).place;
  throw new UsageError(
    `${quotePath(directory)} has files already, which the result could replace; ` +
      'name another directory with --output, or write into this one with --force',
  );
}

const choose = 'choose another directory with --output';

/** What is at a path, links followed; null if there is nothing. */
function statOf(target: string): Stats | null {
  try {
    return statSync(target);
  } catch (cause) {
    const code = errorCode(cause);
    // ENOTDIR: a file where a parent directory should be, which `nearest` finds.
    if (code === 'ENOTDIR') return null;
    if (code === 'ENOENT' && !lstatSync(target, { throwIfNoEntry: false })) return null;
    const problem =
      code === 'ENOENT' ? 'it is a link to something that does not exist' : faultWithoutPath(cause);
    throw new UsageError(`Results cannot be saved in ${quotePath(target)}: ${problem}; ${choose}`, { cause });
  }
}

/** The path itself if it exists, otherwise the nearest directory above it that does. */
function nearest(target: string): string {
  for (let each = target; ; each = path.dirname(each)) {
    const stats = statOf(each);
    if (stats?.isDirectory()) return each;
    if (stats) {
      const what = each === target ? 'it' : quotePath(each);
      throw new UsageError(
        `Results cannot be saved in ${quotePath(target)}: ${what} is not a directory; ${choose}`,
      );
    }
  }
}

/**
 * Makes the directories that are missing below `existing`, and a file in the last of them, inside a directory of a random
 * name, and removes all of it. Checking permissions is not enough: root has them everywhere, yet nothing can be created
 * in some kernel directories.
 */
function tryToWrite(existing: string, missing: string): void {
  const own = mkdtempSync(path.join(existing, privatePrefix));
  try {
    const last = path.join(own, missing);
    makeDirectory(last);
    closeSync(openSync(path.join(last, 'file'), 'wx'));
  } finally {
    try {
      rmSync(own, { recursive: true, force: true });
    } catch {
      // An error of the attempt is more helpful; a leftover empty directory does no harm.
    }
  }
}

/**
 * Checks that a result can be saved in a directory, which need not exist yet. Leaves nothing behind. It is called before
 * anything is sent, so that a job is not run for a result that has no place.
 * @throws UsageError naming the directory and what is wrong with it
 */
export function checkOutput(directory: string): void {
  const target = path.resolve(directory);
  const existing = nearest(target);
  if (statOf(path.join(target, resultName))?.isDirectory()) {
    const archive = quotePath(path.join(target, resultName));
    throw new UsageError(`${archive} is a directory, and the result gets this name; move it, or ${choose}`);
  }
  try {
    tryToWrite(existing, path.relative(existing, target));
  } catch (cause) {
    const place = existing === target ? '' : `it cannot be made in ${quotePath(existing)}: `;
    const remedy = isOutOfInodes(cause, existing) ? `remove some files there, or ${choose}` : choose;
    throw new UsageError(
      `Results cannot be saved in ${quotePath(target)}: ${place}${faultWithoutPath(cause, existing)}; ${remedy}`,
      { cause },
    );
  }
}

/**
 * Moves everything in one directory into another.
 * @param mayReplace whether files that are there may be replaced
 * @returns the number of files whose place something else has; these stay where they are
 */
async function moveInto(from: string, to: string, mayReplace: boolean): Promise<number> {
  let unplaced = 0;
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [path.join(from, entry.name), path.join(to, entry.name)];
    const there = lstatSync(target, { throwIfNoEntry: false });
    if (!there || (mayReplace && !entry.isDirectory() && !there.isDirectory())) {
      replaceFile(source, target);
    } else if (entry.isDirectory() && there.isDirectory()) {
      unplaced += await moveInto(source, target, mayReplace);
    } else if (entry.isDirectory()) {
      const inside = await readdir(source, { recursive: true, withFileTypes: true });
      unplaced += inside.filter((each) => !each.isDirectory()).length;
    } else {
      unplaced += 1;
    }
  }
  return unplaced;
}

/** Errors of a move onto a directory that exists. */
const existsAlready = new Set(['ENOTEMPTY', 'EEXIST', 'EPERM', 'EINVAL', 'EBUSY']);

/**
 * A private directory in which a result is completed before it is moved to its place. It is on the same file system as
 * that place: beside it, or inside it if it exists.
 */
export class PrivateDirectory {
  /** Holds the files that will be moved to the final place. */
  readonly files: string;

  private constructor(
    /** For files that are not moved. */
    readonly directory: string,
    /** Parents that were created for it, the innermost first. */
    private readonly made: readonly string[],
  ) {
    this.files = path.join(directory, 'files');
  }

  /** @param place where the files will probably go */
  static async make(place: string): Promise<PrivateDirectory> {
    const parent = existsSync(place) ? place : path.dirname(place);
    const made: string[] = [];
    for (let each = parent; !existsSync(each); each = path.dirname(each)) made.push(each);
    makeDirectory(parent);
    const own = new PrivateDirectory(await mkdtemp(path.join(parent, privatePrefix)), made);
    // A subdirectory gives the files the usual permissions, while the private directory keeps others out.
    await mkdir(own.files);
    return own;
  }

  /**
   * Moves the files to their place. If another command has used that in the meantime, a numbered directory beside it is
   * taken, so that two results are never mixed.
   * @param first the file that is moved first
   * @returns the directory, and the number of files that stay, because something else has their places
   */
  async place(
    { directory, taken }: OutputDirectory,
    first: string,
  ): Promise<{ readonly output: string; readonly unplaced: number }> {
    if (taken === 'replace') {
      const output = path.resolve(directory);
      makeDirectory(output);
      return { output, unplaced: await moveInto(this.files, output, true) };
    }
    for (let next = 1; ; ) {
      const { place, number } = firstFree(directory, next);
      const unplaced = await this.#take(place, first);
      if (unplaced !== null) return { output: place, unplaced };
      next = number + 1;
    }
  }

  /** @returns null if another command has filled this place in the meantime */
  async #take(place: string, first: string): Promise<number | null> {
    try {
      // Takes the place of an empty directory as well.
      await rename(this.files, place);
      return 0;
    } catch (cause) {
      if (!existsAlready.has(errorCode(cause)) || !existsSync(place)) throw cause;
    }
    try {
      // Only one of two commands can create this file.
      await (await open(path.join(place, first), 'wx')).close();
    } catch (cause) {
      if (errorCode(cause) === 'EEXIST') return null;
      throw cause;
    }
    replaceFile(path.join(this.files, first), path.join(place, first));
    return moveInto(this.files, place, false);
  }

  /** Removes the directory with all that is left in it, and the parents that were made for it if they are empty. Never throws. */
  async remove(): Promise<void> {
    await rm(this.directory, { recursive: true, force: true }).catch(() => {});
    for (const each of this.made) await rmdir(each).catch(() => {});
  }
}
