import { type Dirent, readdir as readdirWithCallback, realpathSync } from 'node:fs';
import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import { quotePath } from '../../contract/index.js';
import { byName } from '../../files/index.js';
import { exists, lookAt, misnamed } from './entries.js';

const globCharacters = /[*?[\]{}!]/;

/** The character that invalid UTF-8 becomes when Node decodes it. */
export const replacement = '\ufffd';

/**
 * A pattern, split into an existing directory that it begins with, which is taken literally, and the rest to be matched
 * in it.
 */
export function splitPattern(pattern: string): { readonly directory: string; readonly rest: string } {
  const parts = pattern.split('/');
  for (let count = parts.length - 1; count > 0; count -= 1) {
    const directory = parts.slice(0, count).join('/') || '/';
    if (lookAt(directory)?.stats?.isDirectory()) return { directory, rest: parts.slice(count).join('/') };
  }
  return { directory: '', rest: pattern };
}

/** A pattern in which parentheses, and a leading exclamation mark, are literal, as in a shell. */
const withLiterals = (pattern: string): string => pattern.replace(/[()|]|^!/g, '\\$&');

type Listed = (error: NodeJS.ErrnoException | null, entries?: Dirent[]) => void;

/** The real paths of a directory and of all its parents. */
function placesAbove(directory: string): Set<string> {
  const places = new Set<string>();
  for (let at = path.resolve(directory); ; at = path.dirname(at)) {
    places.add(realpathSync(at));
    if (at === path.dirname(at)) return places;
  }
}

/**
 * Corrects an entry for tinyglobby, which omits FIFOs, links to directories, and dangling links. An entry that cannot be
 * sent counts as a file, so that it is found and reported. Null for a link to a directory above it.
 */
function resolved(directory: string, entry: Dirent): Dirent | null {
  if (entry.isFile() || entry.isDirectory()) return entry;
  const target = path.join(directory, entry.name);
  const isDirectory = lookAt(target)?.stats?.isDirectory() ?? false;
  if (isDirectory && placesAbove(directory).has(realpathSync(target))) return null;
  const is = { isSymbolicLink: () => false, isDirectory: () => isDirectory, isFile: () => !isDirectory };
  return Object.assign(Object.create(entry), is);
}

/** Leaves out entries inside a directory that is matched too. */
const outermost = (found: readonly string[]): string[] => {
  const kept = new Set(found);
  const isInside = (each: string): boolean => {
    for (let at = path.dirname(each); at !== path.dirname(at); at = path.dirname(at)) {
      if (kept.has(at)) return true;
    }
    return false;
  };
  return found.filter((each) => !isInside(each));
};

/** The directories of a match that the pattern does not name: from that in which it begins, the match itself included, the outermost first. */
export function foundOnTheWay(pattern: string, match: string): string[] {
  const posix = process.platform === 'win32' ? pattern.replaceAll('\\', '/') : pattern;
  const { directory, rest } = splitPattern(posix);
  const named = new Set(rest.split('/'));
  const parts = path.relative(directory, match).split(path.sep);
  return parts.flatMap((part, at) =>
    named.has(part) ? [] : [path.join(directory, ...parts.slice(0, at + 1))],
  );
}

/**
 * The paths that a pattern matches, sorted by name. Hidden files are matched only by a pattern that begins with a dot.
 * @throws UsageError if a name is not UTF-8
 */
export async function matchesOf(pattern: string): Promise<string[]> {
  const posix = process.platform === 'win32' ? pattern.replaceAll('\\', '/') : pattern;
  const { directory: start, rest } = splitPattern(posix);
  if (!globCharacters.test(rest)) return [];
  const { glob } = await import('tinyglobby');
  const entered: string[] = [];
  const list = (directory: string, options: { withFileTypes: true }, done: Listed) => {
    entered.push(path.relative('', directory));
    readdirWithCallback(directory, options, (error, entries) =>
      done(
        error,
        entries?.flatMap((entry) => resolved(directory, entry) ?? []),
      ),
    );
  };
  const matches = await glob(withLiterals(rest), {
    cwd: start || '.',
    onlyFiles: false,
    expandDirectories: false,
    dot: false,
    fs: { readdir: list as typeof readdirWithCallback },
  });
  const found = matches.map((each) => path.join(start, each.replace(/\/$/, '')));
  // No file name has this character, so the bytes of the name are not UTF-8.
  const lost = [...entered, ...found].find((each) => each.includes(replacement) && !exists(each));
  if (lost !== undefined) throw new UsageError(`${quotePath(lost)} ${misnamed}`);
  return outermost(found).sort(byName);
}
