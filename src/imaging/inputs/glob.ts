import { isUtf8 } from 'node:buffer';
import { statSync } from 'node:fs';
import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import { quotePath } from '../../contract/index.js';
import { byName, faultWithoutPath, TooManyEntries, walkDirectories, withSlashes } from '../../files/index.js';
import { lookAt, maxEntries, misnamed, tooMany } from './entries.js';

const globCharacters = /[*?[\]{}!]/;

/** The character that invalid UTF-8 becomes when Node decodes it. */
export const replacement = '\ufffd';

/**
 * A pattern, split into an existing directory that it begins with, which is taken literally, and the rest to be matched
 * in it. Both have slashes, also on Windows, where a pattern may have backslashes.
 */
export function splitPattern(pattern: string): { readonly directory: string; readonly rest: string } {
  const posix = withSlashes(pattern);
  const parts = posix.split('/');
  for (let count = parts.length - 1; count > 0; count -= 1) {
    // A drive without a slash would be its current directory.
    const directory = parts
      .slice(0, count)
      .join('/')
      .replace(/^$|^[a-z]:$/i, '$&/');
    if (lookAt(directory)?.stats?.isDirectory()) return { directory, rest: parts.slice(count).join('/') };
  }
  return { directory: '', rest: posix };
}

/** A pattern in which parentheses, and a leading exclamation mark, are literal, as in a shell. */
const withLiterals = (pattern: string): string => pattern.replace(/[()|]|^!/g, '\\$&');

/** The directories of a match that the pattern does not name: from that in which it begins, the match itself included, the outermost first. */
export function foundOnTheWay(pattern: string, match: string): string[] {
  const { directory, rest } = splitPattern(pattern);
  const named = new Set(rest.split('/'));
  const parts = path.relative(directory, match).split(path.sep);
  return parts.flatMap((part, at) =>
    named.has(part) ? [] : [path.join(directory, ...parts.slice(0, at + 1))],
  );
}

/** The patterns that braces with slashes in them stand for: other braces are those of one part of a path. */
function alternativesOf(pattern: string): string[] {
  const [braces = '', inside = ''] = /\{([^{}]*\/[^{}]*)\}/.exec(pattern) ?? [];
  if (braces === '') return [pattern];
  return inside.split(',').flatMap((each) => alternativesOf(pattern.replace(braces, () => each)));
}

/** A pattern, part by part. A place in it is the number of the part that the next name has to match. */
class Parts {
  readonly #parts: readonly string[];
  readonly #tests: readonly ((name: string) => boolean)[];

  constructor(pattern: string, compile: (part: string) => (name: string) => boolean) {
    this.#parts = pattern.split('/').filter((part) => part !== '' && part !== '.');
    this.#tests = this.#parts.map((part) => compile(withLiterals(part)));
  }

  get start(): readonly number[] {
    return this.#withSkipped([0]);
  }

  /** The places behind a name; empty if it does not match. */
  after(places: readonly number[], name: string): readonly number[] {
    const next = places.flatMap((at) => {
      if (this.#parts[at] === '**') return name.startsWith('.') ? [] : [at];
      return this.#tests[at]?.(name) ? [at + 1] : [];
    });
    return this.#withSkipped(next);
  }

  isWhole(places: readonly number[]): boolean {
    return places.includes(this.#parts.length);
  }

  /** With the places behind `**`, which may stand for no directory. */
  #withSkipped(places: readonly number[]): readonly number[] {
    const all = new Set(places);
    // A set visits what is added meanwhile.
    for (const at of all) if (this.#parts[at] === '**') all.add(at + 1);
    return [...all].sort((a, b) => a - b);
  }
}

/**
 * Adds what one pattern matches below a directory, once for all paths that lead to it.
 * @param matches by what tells files and directories apart
 */
async function addMatches(start: string, parts: Parts, matches: Map<string, string>): Promise<void> {
  const placesOf = new Map<string, readonly number[]>();
  const visited = walkDirectories(start, {
    followsLinks: true,
    maxEntries,
    enters: ({ path: directory }) => placesOf.has(directory.toString()),
    // What matches below a directory depends on the way to it.
    variantOf: (directory) => String(placesOf.get(directory.toString())),
    onUnreadable: (directory, cause) => {
      throw new UsageError(`${quotePath(directory.toString())} cannot be read: ${faultWithoutPath(cause)}`);
    },
  });
  for await (const { path: directory, entries } of visited) {
    const places = placesOf.get(directory.toString()) ?? parts.start;
    const above = statSync(directory, { bigint: true });
    for (const { name: bytes, path: place, kind } of entries) {
      const [name, target] = [bytes.toString(), place.toString()];
      const next = parts.after(places, name);
      const isMatch = parts.isWhole(next);
      if (next.length === 0 || (!isMatch && kind !== 'directory')) continue;
      if (!isUtf8(bytes)) throw new UsageError(`${quotePath(path.join(target))} ${misnamed}`);
      if (!isMatch) {
        placesOf.set(target, next);
        continue;
      }
      // What lies in a directory that matches is found with it.
      const own = kind === 'directory' ? statSync(target, { bigint: true }) : above;
      const id = `${own.dev}:${own.ino}/${kind === 'directory' ? '' : name}`;
      if (!matches.has(id)) matches.set(id, path.join(target));
    }
  }
}

/**
 * The paths that a pattern matches, sorted by name. Hidden files are matched only by a pattern that begins with a dot.
 * @throws UsageError if a name is not UTF-8, a directory cannot be read, or there are too many files
 */
export async function matchesOf(pattern: string): Promise<string[]> {
  const { directory, rest } = splitPattern(pattern);
  if (!globCharacters.test(rest)) return [];
  const { default: picomatch } = await import('picomatch');
  // As in POSIX, `[!a]` is any character but this one.
  const compile = (part: string) => picomatch(part, { posix: true });
  const matches = new Map<string, string>();
  try {
    for (const each of alternativesOf(rest))
      await addMatches(directory || '.', new Parts(each, compile), matches);
  } catch (cause) {
    if (!(cause instanceof TooManyEntries)) throw cause;
    throw new UsageError(`${quotePath(pattern)} is matched against too many files: ${tooMany}`, { cause });
  }
  return [...matches.values()].sort(byName);
}
