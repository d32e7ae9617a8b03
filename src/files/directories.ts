import { type Dirent, lstatSync, mkdirSync, readdirSync, readlinkSync, type Stats, statSync } from 'node:fs';
import path from 'node:path';
import { errorCode, orElse } from './errors.js';

/** Whether a path is a directory, or a link to one. @throws the system's error, unless the path does not exist */
export const isDirectory = (place: string): boolean =>
  statSync(place, { throwIfNoEntry: false })?.isDirectory() ?? false;

/** Creates one directory; does nothing if it exists. */
function makeOne(directory: string, mode: number): void {
  try {
    mkdirSync(directory, { mode });
  } catch (cause) {
    if (!isDirectory(directory)) throw cause;
  }
}

/**
 * Creates a directory and its missing parents. Each is tried at most twice, so the function always returns: Node's own
 * `recursive` never returns if a directory exists but creating one in it fails with ENOENT, as in `/proc`, and its promise
 * version reports ENOENT for a full disk.
 * @throws the system's error
 */
export function makeDirectory(directory: string, mode = 0o777): void {
  try {
    makeOne(directory, mode);
  } catch (cause) {
    const parent = path.dirname(directory);
    if (errorCode(cause) !== 'ENOENT' || parent === directory) throw cause;
    if (!isDirectory(parent)) makeDirectory(parent, mode);
    // Tried even if another process has created the parent in the meantime.
    makeOne(directory, mode);
  }
}

/** Whether a path is a directory, and not a link to one. */
export const isRealDirectory = (place: string): boolean =>
  lstatSync(place, { throwIfNoEntry: false })?.isDirectory() ?? false;

/** The names in a directory; empty if it cannot be read. */
export const namesIn = (directory: string): string[] => orElse(() => readdirSync(directory), []);

/**
 * The files in a directory and below it. Links are not followed: since Node 22, Node's own recursive `readdirSync` follows them,
 * and fails on cyclic links.
 * @param isLeftOut whether to skip a directory with all its content
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

/** Directories of installed packages and of compiled Python, which contain nothing written by the app's author. */
export const madeDirectories: ReadonlySet<string> = new Set(['node_modules', '__pycache__']);

/** Names that are skipped: generated directories, and those of version control, which change without the author. */
const ignored: ReadonlySet<string> = new Set([...madeDirectories, '.git', '.hg', '.svn']);

/** A file or a directory, with links followed, and the target of the link. */
export interface TreeEntry {
  readonly file: string;
  /** Null if the entry cannot be read, for example because it is a dangling link. */
  readonly stats: Stats | null;
  readonly link: string | null;
}

function entryOf(file: string): TreeEntry {
  const own = orElse(() => lstatSync(file), null);
  if (!own?.isSymbolicLink()) return { file, stats: own, link: null };
  return { file, stats: orElse(() => statSync(file), null), link: orElse(() => readlinkSync(file), null) };
}

/**
 * Yields a path and everything below it that its author wrote. Links are followed, and each directory is visited once, because
 * links may form a cycle. The walk is breadth-first, so that deep trees, perhaps behind a link to data, do not crowd out the
 * files at the top. Entries are sorted by name, so that the order is the same on all machines. Uses synchronous calls, because
 * the thread pool is slower.
 * @param isLeftOut whether to skip a directory with all its content
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
    // One at a time, because a data directory may have more names than a call accepts arguments.
    for (const name of namesIn(file).sort()) if (!ignored.has(name)) waiting.push(path.join(file, name));
  }
}

/**
 * Numbers that change whenever a file's content does. `ctimeMs` is included because `cp -p` and `tar` can replace a file with
 * another of the same size and `mtimeMs`.
 */
export const contentStamp = ({ size, mtimeMs, ctimeMs, ino }: Stats): readonly number[] => [
  size,
  mtimeMs,
  ctimeMs,
  ino,
];
