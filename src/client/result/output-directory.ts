import {
  closeSync,
  lstatSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  type Stats,
  statSync,
} from 'node:fs';
import path from 'node:path';
import type { Writable } from 'node:stream';
import { quotePath, resultName } from '../../contract/index.js';
import { errorCode, faultWithoutPath, isOutOfInodes, makeDirectory } from '../../files/index.js';
import { UsageError } from '../errors.js';
import { numberedDirectory } from '../output-names.js';

/** A directory in which a result is to be saved. */
export interface OutputDirectory {
  /** As the user typed it. */
  readonly directory: string;
  /** What to do if it contains other files: use a numbered directory beside it, refuse, or write into it anyway. */
  readonly taken: 'number' | 'refuse' | 'replace';
  /** Whether the archive is removed once everything in it is extracted. */
  readonly withoutArchive?: boolean | undefined;
}

/**
 * A directory that the caller created and will remove. The result is extracted into `files` inside it, and not moved elsewhere.
 * An archive that cannot be extracted completely is not kept.
 */
export interface OwnedDirectory {
  readonly owned: string;
  /** Where the files go in the end, for messages. */
  readonly place: string;
  /** What to do once something can be written, for messages. */
  readonly next: string;
}

/** Where a result goes: into a directory, or as a zip to a stream. */
export type Destination = OutputDirectory | { readonly stream: Writable };

/** What the name of a private directory starts with. Six random characters follow, so that two commands cannot meet in one. */
export const privatePrefix = '.remote-app-';

/** Files of version control, file managers and file systems, and private directories: these do not count as results. */
const ofNobody =
  /^(?:\.git(?:keep|ignore)|\.remote-app-\w{6}|\.DS_Store|\._.*|\.nfs.*|Thumbs\.db|desktop\.ini|lost\+found)$/;

/**
 * Whether anything at a path could be replaced by a result or mixed with it. A directory that cannot be read may contain files.
 */
export function hasFiles(directory: string): boolean {
  try {
    return readdirSync(directory).some((name) => !ofNobody.test(name));
  } catch {
    return statSync(directory, { throwIfNoEntry: false }) !== undefined;
  }
}

/** The first directory without files among `Output`, `Output-2`, `Output-3` and so on. */
export function firstFree(
  directory: string,
  number = 1,
): { readonly place: string; readonly number: number } {
  const target = path.resolve(directory);
  for (let each = number; ; each += 1) {
    const place = numberedDirectory(target, each);
    if (!hasFiles(place)) return { place, number: each };
  }
}

/**
 * The directory that a result would go to now. Determined before anything is sent, so that a job does not run only for its result
 * to be refused.
 * @throws UsageError for a directory with other files that may not be replaced
 */
export function foreseeOutput({ directory, taken }: OutputDirectory): string {
  const target = path.resolve(directory);
  if (taken === 'replace' || !hasFiles(target)) return target;
  if (taken === 'number') return firstFree(directory).place;
  throw new UsageError(
    `${quotePath(directory)} already contains files, which the result could replace; ` +
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
 * Creates the missing directories below `existing`, and a file in the last of them, inside a directory with a random name, and
 * removes everything again. Checking permissions is not enough: root has them everywhere, yet nothing can be created in some
 * kernel directories.
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
 * Checks that a result can be saved in a directory, which need not exist yet. Leaves nothing behind. Called before anything is
 * sent, so that no job runs for a result that cannot be saved.
 * @throws UsageError naming the directory and the problem
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
    const place = existing === target ? '' : `it cannot be created in ${quotePath(existing)}: `;
    const remedy = isOutOfInodes(cause, existing) ? `remove some files there, or ${choose}` : choose;
    throw new UsageError(
      `Results cannot be saved in ${quotePath(target)}: ${place}${faultWithoutPath(cause, existing)}; ${remedy}`,
      { cause },
    );
  }
}
