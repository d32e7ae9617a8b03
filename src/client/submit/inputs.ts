import { isUtf8 } from 'node:buffer';
import { lstatSync, readdir as readdirWithCallback, type Stats, statSync } from 'node:fs';
import { readdir, realpath } from 'node:fs/promises';
import path from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { resultName } from '../../contract/archives.js';
import { quotePath } from '../../contract/quote.js';
import { errorCode, faultWithoutPath } from '../../files/error-code.js';
import { isPlaceOfResults } from '../earlier-results.js';
import { UsageError } from '../errors.js';
import { isDicomSeries, isHidden, isZarrStore } from './volumes.js';

/** One volume to send: a file, or a directory that travels whole (a DICOM series, a Zarr store). */
export interface Unit {
  readonly kind: 'file' | 'series' | 'store';
  readonly path: string;
  /** Bytes of a file; 0 for a directory, which is packed later. */
  readonly size: number;
}

const globCharacters = /[*?[\]{}!]/;

const byName = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** The character that Node decodes invalid UTF-8 to. */
const replacement = '\ufffd';

/** The error for a file that cannot be sent. It is not left out silently: an app must compute on the whole study. */
export const misnamed = (target: string): UsageError =>
  new UsageError(`${quotePath(target)} has a name that is not UTF-8; rename it`);

/** Synchronous, since a directory may have thousands of files: the thread pool takes longer than the call itself. */
function statOf(target: string, bytes: string | Buffer = target): Stats | null {
  try {
    return statSync(bytes);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(errorCode(error))) return null;
    throw new UsageError(`${quotePath(target)} cannot be read: ${faultWithoutPath(error)}`, { cause: error });
  }
}

/** Whether something exists at a path. A list is split at its commas only if nothing has the whole name. */
export const exists = (target: string): boolean => statOf(target) !== null;

interface Member {
  readonly name: string;
  /** The bytes of the name on the disk, if they are not UTF-8. */
  readonly bytes: Buffer | null;
}

/** The entries of a directory, sorted by name. */
async function membersOf(directory: string): Promise<Member[]> {
  const names = await readdir(directory, { encoding: 'buffer' });
  return names
    .map((bytes) => ({ name: bytes.toString(), bytes: isUtf8(bytes) ? null : bytes }))
    .sort((a, b) => byName(a.name, b.name));
}

async function unitsOf(
  target: string,
  stats: Stats,
  output: string | null,
  ancestors: readonly string[],
): Promise<Unit[]> {
  if (stats.isFile()) return [{ kind: 'file', path: target, size: stats.size }];
  if (!stats.isDirectory()) throw new UsageError(`${quotePath(target)} is neither a file nor a directory`);
  const real = await realpath(target);
  if (ancestors.includes(real)) return [];
  if (await isZarrStore(real)) return [{ kind: 'store', path: target, size: 0 }];
  if (await isDicomSeries(real)) return [{ kind: 'series', path: target, size: 0 }];
  const units: Unit[] = [];
  for (const [index, { name, bytes }] of (await membersOf(target)).entries()) {
    // Lets an interruption through on a slow disk.
    if (index % 64 === 63) await setImmediate();
    const child = path.join(target, name);
    // The result of an earlier run is not an input, unless it is named itself.
    if (isHidden(name) || name === resultName || (output && isPlaceOfResults(child, output))) continue;
    const childStats = statOf(child, bytes ? Buffer.concat([Buffer.from(target + path.sep), bytes]) : child);
    // A broken link, a socket or a FIFO is skipped: nobody named it.
    if (!childStats || !(childStats.isFile() || childStats.isDirectory())) continue;
    if (bytes) throw misnamed(child);
    units.push(...(await unitsOf(child, childStats, output, [...ancestors, real])));
  }
  return units;
}

async function matches(pattern: string): Promise<string[]> {
  if (!globCharacters.test(pattern)) return [];
  const { glob } = await import('tinyglobby');
  const posix = process.platform === 'win32' ? pattern.replaceAll('\\', '/') : pattern;
  const entered: string[] = [];
  const list = (directory: string, ...more: unknown[]) => {
    entered.push(path.relative('', directory));
    Reflect.apply(readdirWithCallback, null, [directory, ...more]);
  };
  const found = await glob(posix, {
    onlyFiles: false,
    expandDirectories: false,
    dot: false,
    fs: { readdir: list as typeof readdirWithCallback },
  });
  for (const each of [...entered, ...found]) {
    // No file has a name with this character, so the bytes of the name are not UTF-8.
    const isLost = each.includes(replacement) && !lstatSync(each, { throwIfNoEntry: false });
    if (isLost) throw misnamed(each);
  }
  return found.map((each) => each.replace(/\/$/, '')).sort(byName);
}

/**
 * The volumes that paths name (interface.md, Clients): files as they are, globs sorted by name, directories walked in the
 * order of names without hidden files. A DICOM series and a `.zarr` store count as one volume.
 * @param output where results go: not entered, nor a numbered directory of results beside it, unless a path names it
 * @throws UsageError for a path that does not exist, and for a name that is not UTF-8
 */
export async function collectUnits(paths: readonly string[], output: string | null = null): Promise<Unit[]> {
  const units: Unit[] = [];
  for (const given of paths) {
    const stats = statOf(given);
    const targets = stats ? [given] : await matches(given);
    if (targets.length === 0) {
      const why = given.includes(replacement) ? '; a file whose name is not UTF-8 must be renamed first' : '';
      throw new UsageError(`${quotePath(given)} does not exist${why}`);
    }
    const before = units.length;
    for (const target of targets) {
      const targetStats = stats ?? statOf(target);
      if (targetStats)
        units.push(...(await unitsOf(target, targetStats, output && path.resolve(output), [])));
    }
    if (units.length === before) throw new UsageError(`${quotePath(given)} contains no file to send`);
  }
  return units;
}
