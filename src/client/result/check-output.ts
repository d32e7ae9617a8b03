import { closeSync, lstatSync, mkdtempSync, openSync, rmSync, type Stats, statSync } from 'node:fs';
import path from 'node:path';
import { resultName } from '../../contract/archives.js';
import { quotePath } from '../../contract/quote.js';
import { errorCode, faultWithoutPath } from '../../files/error-code.js';
import { makeDirectory } from '../../files/make-directory.js';
import { UsageError } from '../errors.js';

const choose = 'choose another directory with --output';

/** What is at a path, links followed; null if there is nothing. */
function statOf(target: string): Stats | null {
  try {
    return statSync(target);
  } catch (cause) {
    const code = errorCode(cause);
    // ENOTDIR: a file stands where a directory above it should be, which `nearest` finds.
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
 * name, and removes all of it. Permissions alone do not tell: root has them everywhere, and nothing can be made in some directories of the kernel.
 */
function tryToWrite(existing: string, missing: string): void {
  const own = mkdtempSync(path.join(existing, '.remote-app-'));
  try {
    const last = path.join(own, missing);
    makeDirectory(last);
    closeSync(openSync(path.join(last, 'file'), 'wx'));
  } finally {
    try {
      rmSync(own, { recursive: true, force: true });
    } catch {
      // An error of the attempt says more; an empty directory that stays does no harm.
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
  if (existing === target && statOf(path.join(target, resultName))?.isDirectory()) {
    const archive = quotePath(path.join(target, resultName));
    throw new UsageError(`${archive} is a directory, and the result gets this name; move it, or ${choose}`);
  }
  try {
    tryToWrite(existing, path.relative(existing, target));
  } catch (cause) {
    const place = existing === target ? '' : `it cannot be made in ${quotePath(existing)}: `;
    throw new UsageError(
      `Results cannot be saved in ${quotePath(target)}: ${place}${faultWithoutPath(cause)}; ${choose}`,
      { cause },
    );
  }
}
