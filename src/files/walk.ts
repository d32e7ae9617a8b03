import type { Dirent, Stats } from 'node:fs';
import { lstat, opendir, stat } from 'node:fs/promises';
import path from 'node:path';

/** An entry of a directory. */
export interface WalkedEntry {
  /** The bytes of its name, which need not be UTF-8. */
  readonly name: Buffer;
  readonly path: Buffer;
  /** Of a link's target, if links are followed and it has one. */
  readonly kind: 'directory' | 'file' | 'link' | 'other';
  /** Whether the entry itself is a link, even if links are followed. */
  readonly isLink: boolean;
}

/** A directory, with its entries sorted by the bytes of their names. */
export interface WalkedDirectory {
  readonly path: Buffer;
  /** 0 for the directory in which the walk begins. */
  readonly depth: number;
  readonly entries: readonly WalkedEntry[];
}

export interface DirectoryWalkOptions {
  /** Whether links to directories are walked too. */
  readonly followsLinks?: boolean;
  /** Whether to walk a directory, which is `depth` levels below the first one; by default all are walked. */
  readonly enters?: (entry: WalkedEntry, depth: number) => Promise<boolean> | boolean;
  /** Maximum number of entries in total. */
  readonly maxEntries?: number;
  /** Called with a directory that cannot be read or is gone. If it throws, the walk ends. */
  readonly onUnreadable?: (directory: Buffer, cause: unknown) => void;
  /** Called with a directory that is not walked again, and with the path by which it was visited. */
  readonly onRepeated?: (directory: Buffer, first: Buffer) => void;
  /** Lets a directory that is reached by several paths be walked once for each variant. */
  readonly variantOf?: (directory: Buffer) => string;
  readonly signal?: AbortSignal | undefined;
}

/** A walk has found more than its maximum number of entries. */
export class TooManyEntries extends Error {}

/**
 * Yields a directory and those below it, parents first. Each is visited once, however many links lead to it: directories are
 * remembered by device and inode, so that a walk over cyclic or meshed links ends as it does in any other tree.
 *
 * The server walks without following links. A client that sends the targets of links sets `followsLinks` and a limit, and chooses
 * with `enters` which directories to send.
 * @throws the system's error if the first directory cannot be read; TooManyEntries, after the entries within the limit
 */
export async function* walkDirectories(
  root: string,
  options: DirectoryWalkOptions = {},
): AsyncGenerator<WalkedDirectory> {
  const { followsLinks = false, maxEntries = Number.POSITIVE_INFINITY, signal } = options;
  const {
    enters = () => true,
    onUnreadable = () => {},
    onRepeated = () => {},
    variantOf = () => '',
  } = options;
  const seen = new Map<string, Buffer>();
  const pending: { path: Buffer; depth: number }[] = [{ path: Buffer.from(root), depth: 0 }];
  let left = maxEntries;
  for (let next = pending.pop(); next; next = pending.pop()) {
    signal?.throwIfAborted();
    const { path: directory, depth } = next;
    let entries: WalkedEntry[];
    try {
      // On Windows and network file systems, inode numbers may exceed the integers that a number represents exactly.
      const { dev, ino } = await (followsLinks ? stat : lstat)(directory, { bigint: true });
      const id = `${dev}:${ino}:${variantOf(directory)}`;
      const first = seen.get(id);
      if (first) {
        onRepeated(directory, first);
        continue;
      }
      seen.set(id, directory);
      entries = await entriesOf(directory, left, followsLinks);
    } catch (cause) {
      if (depth === 0) throw cause;
      onUnreadable(directory, cause);
      continue;
    }
    const isCut = entries.length > left;
    if (isCut) entries.pop();
    left -= entries.length;
    yield { path: directory, depth, entries };
    if (isCut) throw new TooManyEntries(`There are more than ${maxEntries} files and directories`);
    const below: typeof pending = [];
    for (const entry of entries) {
      if (entry.kind === 'directory' && (await enters(entry, depth + 1)))
        below.push({ path: entry.path, depth: depth + 1 });
    }
    // The last one is walked next.
    pending.push(...below.reverse());
  }
}

/** The entries of a directory, sorted; at most one more than `max`. */
async function entriesOf(directory: Buffer, max: number, followsLinks: boolean): Promise<WalkedEntry[]> {
  const entries: WalkedEntry[] = [];
  // Reads names as bytes; the types allow neither this encoding nor a path that is not UTF-8.
  const options = { encoding: 'buffer' as BufferEncoding, bufferSize: 1024 };
  for await (const entry of await opendir(directory as unknown as string, options)) {
    const name = Buffer.from(entry.name);
    const place = Buffer.concat([directory, Buffer.from(path.sep), name]);
    const kind = kindOf(entry);
    const target = kind === 'link' && followsLinks ? await stat(place).catch(() => null) : null;
    entries.push({ name, path: place, kind: target ? kindOf(target) : kind, isLink: kind === 'link' });
    if (entries.length > max) break;
  }
  return entries.sort((a, b) => Buffer.compare(a.name, b.name));
}

function kindOf(entry: Dirent | Stats): WalkedEntry['kind'] {
  if (entry.isFile()) return 'file';
  if (entry.isDirectory()) return 'directory';
  return entry.isSymbolicLink() ? 'link' : 'other';
}
