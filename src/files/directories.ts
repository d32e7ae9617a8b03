import { type Dirent, lstatSync, mkdirSync, readdirSync, readlinkSync, type Stats, statSync } from 'node:fs';
import path from 'node:path';
import { errorCode, orElse } from './errors.js';

/** Whether there is a directory at this place, or a link to one. @throws the system's error, but for a missing place */
export const isDirectory = (place: string): boolean =>
  statSync(place, { throwIfNoEntry: false })?.isDirectory() ?? false;

/** Creates one directory. An existing one is fine too. */
function makeOne(directory: string, mode: number): void {
  try {
    mkdirSync(directory, { mode });
  } catch (cause) {
    if (!isDirectory(directory)) throw cause;
  }
}

/**
 * Creates a directory and its missing parents. Tries each at most twice, so it always ends: Node's own `recursive` never
 * returns where a directory exists and making one in it fails with ENOENT, as in `/proc`, and its promise version reports
 * ENOENT for a full disk.
 * @throws the system's error
 */
export function makeDirectory(directory: string, mode = 0o777): void {
  try {
    makeOne(directory, mode);
  } catch (cause) {
    const parent = path.dirname(directory);
    if (errorCode(cause) !== 'ENOENT' || parent === directory) throw cause;
    if (!isDirectory(parent)) makeDirectory(parent, mode);
    // Also if somebody else created the parent in the meantime.
    makeOne(directory, mode);
  }
}

/** Whether there is a directory at this place, which is no link to one. */
export const isRealDirectory = (place: string): boolean =>
  lstatSync(place, { throwIfNoEntry: false })?.isDirectory() ?? false;

/** The names in a directory; empty if it cannot be read. */
export const namesIn = (directory: string): string[] => orElse(() => readdirSync(directory), []);

/**
 * The files in a directory and below. Links are not followed: Node's own recursive `readdirSync` follows them since Node 22, and
 * fails where they lead in a circle.
 * @param isLeftOut whether a directory is left out with all below it
 * @throws the system's error if a directory cannot be read
 */
export function filesBelow(directory: string, isLeftOut = (_directory: string) => false): Dirent[] {
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    if (entry.isFile()) return [entry];
    const place = path.join(directory, entry.name);
    if (!entry.isDirectory() || isLeftOut(place)) return [];
    return filesBelow(place, isLeftOut);
  });
}

/** Directories of packages and of compiled Python: nothing in them was written by the app's author. */
export const madeDirectories: ReadonlySet<string> = new Set(['node_modules', '__pycache__']);

/** Names that are skipped: generated directories, and those of version control, which change by themselves. */
const ignored: ReadonlySet<string> = new Set([...madeDirectories, '.git', '.hg', '.svn']);

/** A file or a directory, with links followed, and the link's target. */
export interface TreeEntry {
  readonly file: string;
  /** Null if it cannot be read, for example because of a dangling link. */
  readonly stats: Stats | null;
  readonly link: string | null;
}

function entryOf(file: string): TreeEntry {
  const own = orElse(() => lstatSync(file), null);
  if (!own?.isSymbolicLink()) return { file, stats: own, link: null };
  return { file, stats: orElse(() => statSync(file), null), link: orElse(() => readlinkSync(file), null) };
}

/**
 * A path and everything below it that its author wrote, following links, each directory once, because links may form a
 * cycle. Goes down level by level, so that deep trees, perhaps behind a link to data, do not crowd out the files at the
 * top. In the order of names, which is the same on all machines. Uses synchronous calls: the thread pool is slower.
 * @param isLeftOut whether a directory is left out with all below it
 */
export function* treeEntries(
  start: string,
  isLeftOut = (_directory: string): boolean => false,
): Generator<TreeEntry, void> {
  const seen = new Set<string>();
  const waiting = [start];
  for (const file of waiting) {
    const entry = entryOf(file);
    const { stats } = entry;
    const isDirectory = stats?.isDirectory() ?? false;
    if (isDirectory && isLeftOut(file)) continue;
    yield entry;
    if (!isDirectory || seen.has(`${stats?.dev} ${stats?.ino}`)) continue;
    seen.add(`${stats?.dev} ${stats?.ino}`);
    // One by one, because a data directory may have more names than a call takes arguments.
    for (const name of namesIn(file).sort()) if (!ignored.has(name)) waiting.push(path.join(file, name));
  }
}

/**
 * What changes when a file gets another content. `ctimeMs` is included because `cp -p` and `tar` can replace a file by
 * another with the same size and `mtimeMs`.
 */
export const contentStamp = ({ size, mtimeMs, ctimeMs, ino }: Stats): readonly number[] => [
  size,
  mtimeMs,
  ctimeMs,
  ino,
];
