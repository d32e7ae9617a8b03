import { isUtf8 } from 'node:buffer';
import { statSync } from 'node:fs';
import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import { quotePath } from '../../contract/index.js';
import { byName, faultWithoutPath, TooManyEntries, walkDirectories, withSlashes } from '../../files/index.js';
import { lookAt, maxEntries, misnamed, tooMany } from './entries.js';

const globCharacters = /[*?[\]{}!]/;

/** The replacement character that Node decodes invalid UTF-8 to. */
export const replacement = '\ufffd';

/**
 * Splits a pattern into the existing directory that it begins with, which is taken literally, and the rest to match inside it.
 * Both use slashes, even on Windows, where a pattern may contain backslashes.
 */
export function splitPattern(pattern: string): { readonly directory: string; readonly rest: string } {
  const posix = withSlashes(pattern);
  const parts = posix.split('/');
  for (let count = parts.length - 1; count > 0; count -= 1) {
    // A drive letter without a slash would mean its current directory.
    const directory = parts
      .slice(0, count)
      .join('/')
      .replace(/^$|^[a-z]:$/i, '$&/');
    if (lookAt(directory)?.stats?.isDirectory()) return { directory, rest: parts.slice(count).join('/') };
  }
  return { directory: '', rest: posix };
}

/** Makes parentheses and a leading exclamation mark literal, as in a shell. */
const withLiterals = (pattern: string): string => pattern.replace(/[()|]|^!/g, '\\$&');

/**
 * The directories on the way to a match that the pattern does not name literally, outermost first. The match itself is included.
 */
export function foundOnTheWay(pattern: string, match: string): string[] {
  const { directory, rest } = splitPattern(pattern);
  const named = new Set(rest.split('/'));
  const parts = path.relative(directory, match).split(path.sep);
  return parts.flatMap((part, at) =>
    named.has(part) ? [] : [path.join(directory, ...parts.slice(0, at + 1))],
  );
}

/** Expands braces that contain slashes. Other braces stand within one part of a path. */
function alternativesOf(pattern: string): string[] {
  const [braces = '', inside = ''] = /\{([^{}]*\/[^{}]*)\}/.exec(pattern) ?? [];
  if (braces === '') return [pattern];
  return inside.split(',').flatMap((each) => alternativesOf(pattern.replace(braces, () => each)));
}

/** A pattern, divided into its path parts. A place is the index of the part that the next name has to match. */
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

  /** The places reached after matching a name; empty if it does not match. */
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

  /** Adds the places after `**`, which may match no directory. */
  #withSkipped(places: readonly number[]): readonly number[] {
    const all = new Set(places);
    // Iterating over a set includes elements added meanwhile.
    for (const at of all) if (this.#parts[at] === '**') all.add(at + 1);
    return [...all].sort((a, b) => a - b);
  }
}

/**
 * Adds the matches of one pattern below a directory, once for all paths that lead to the same match.
 * @param matches paths, by the identity of the file or directory
 */
async function addMatches(start: string, parts: Parts, matches: Map<string, string>): Promise<void> {
  const placesOf = new Map<string, readonly number[]>();
  const visited = walkDirectories(start, {
    followsLinks: true,
    maxEntries,
    enters: ({ path: directory }) => placesOf.has(directory.toString()),
    // What matches inside a directory depends on the path that led to it.
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
      // The content of a matching directory is found together with it.
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
