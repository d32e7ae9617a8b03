import { isUtf8 } from 'node:buffer';
import { fstatSync, type Stats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { quoteName } from '../contract/index.js';
import { errorCode, faultWithoutPath, freeName, isShortage, Notes } from '../files/index.js';
import { mostParts } from './entry-places.js';
import { carriedPart, changedName } from './member-names.js';
import { type Item, OpenedDirectory } from './opened-directory.js';

/** Bytes, or a range of those of the file that is packed (`end` is behind the last). */
export type PackedPiece = Uint8Array | { readonly start: number; readonly end: number };

/** A file that is being packed. */
export interface OpenedFile {
  readonly name: string;
  readonly stats: Stats;
  /** Open until the next file is requested; null for an empty directory. */
  readonly file: FileHandle | null;
  /** What is packed in place of its content. */
  readonly pieces?: readonly PackedPiece[];
}

export interface WalkOptions {
  /** Which files to include, by their names in the archive. */
  readonly include: (name: string) => boolean;
  /** Which targets of links inside the directory to include, by their path relative to the root. */
  readonly includeTarget: (name: string) => boolean;
  /** Whether to make files and directories of this user readable if they are not. */
  readonly openUp: boolean;
  readonly notes: Notes;
  readonly signal?: AbortSignal | undefined;
  /** Called for each entry that is not packed; the walk continues when it resolves. */
  readonly onLeftOut?: () => Promise<void> | void;
}

/** Entries of a directory that are held in memory and sorted at once. */
const sortedEntries = 10_000;

/** Deepest nesting of directories whose files can be extracted again. */
const deepest = mostParts - 1;

/** A directory that is still to be walked. Siblings share one parent object, which keeps many of them small in memory. */
interface Pending {
  readonly parent: Pending | null;
  readonly depth: number;
  readonly key: string;
  /** Its name in the archive, which ends with a slash. */
  readonly name: string;
}

const top: Pending = { parent: null, depth: 0, key: '', name: '' };

/** The directories from the root to this one, without the root. */
function pathTo(directory: Pending): Pending[] {
  const found: Pending[] = [];
  for (let at = directory; at.parent; at = at.parent) found.push(at);
  return found.reverse();
}

/**
 * The names that the files of one directory get in an archive. Names in a zip archive are UTF-8: a file name whose bytes are
 * not valid UTF-8 is decoded as Latin-1. A changed name is numbered if a neighbour has it already.
 */
class MemberNames {
  readonly #counts = new Map<string, number>();
  readonly #given = new Set<string>();

  /** @param prefix the directory's own name in the archive; empty, or it ends with a slash */
  constructor(
    private readonly directory: OpenedDirectory,
    readonly prefix: string,
    private readonly notes: Notes,
  ) {}

  /** The last part of the archive name of a file whose name has these bytes, one character per byte. */
  of(key: string): string {
    const bytes = Buffer.from(key, 'latin1');
    const isText = isUtf8(bytes);
    const own = isText ? bytes.toString() : key;
    const carried = carriedPart(own, this.prefix === '');
    if (isText && carried === own) return own;
    const name = freeName(carried, this.#counts, (each) => this.#given.has(each) || this.directory.has(each));
    this.#given.add(name);
    this.notes.add(changedName(this.prefix + name, isText));
    return name;
  }
}

const inOrder = (items: Item[]): Item[] => items.sort((a, b) => (a.key < b.key ? -1 : 1));

/**
 * The regular files and empty directories under `root`: first the files of a directory, sorted by name, then those of its
 * directories. A symbolic link to a file under `root` counts as that file. All other entries (links that lead out of
 * `root`, FIFOs, files that cannot be read) are skipped with a note. No path is looked up twice and the system never
 * follows a link, so a link planted or swapped in by a job cannot lead out of `root`.
 * @throws the system's error if `root` is not a readable directory
 */
export async function* walkFiles(root: string, options: WalkOptions): AsyncGenerator<OpenedFile> {
  await using opened = await OpenedDirectory.open(root, options);
  const walk = new Walk(opened, options);
  const pending = [top];
  for (let next = pending.pop(); next; next = pending.pop()) yield* walk.directory(next, pending);
}

class Walk {
  constructor(
    private readonly root: OpenedDirectory,
    private readonly options: WalkOptions,
  ) {}

  /** The files of one directory. Adds its directories to those that are still to be walked. */
  async *directory(parent: Pending, pending: Pending[]): AsyncGenerator<OpenedFile> {
    const way = pathTo(parent);
    const keys = way.map(({ key }) => key);
    const prefix = way.map(({ name }) => name).join('');
    const opened = await this.#tried(prefix, () => this.root.descend(keys));
    if (!opened) return;
    await using directory = opened;
    const names = new MemberNames(directory, prefix, this.options.notes);
    const below: string[] = [];
    let isEmpty = true;
    for await (const batch of this.#batches(directory, prefix)) {
      isEmpty = false;
      for (const item of batch) {
        if (item.type === 'directory') below.push(item.key);
        else if (!(yield* this.#file(directory, item, names))) await this.options.onLeftOut?.();
      }
    }
    if (isEmpty && prefix !== '' && this.options.include(prefix)) {
      yield { name: prefix, stats: await directory.handle.stat(), file: null };
    }
    // The last one is walked next.
    for (const key of below.reverse()) {
      const name = `${names.of(key)}/`;
      const depth = parent.depth + 1;
      if (depth <= deepest) pending.push({ parent, depth, key, name });
      else this.#pass(prefix + name, `lies more than ${deepest} directories deep`);
    }
  }

  /** The entries of a directory in groups of limited size, because a directory may have millions. */
  async *#batches(directory: OpenedDirectory, prefix: string): AsyncGenerator<Item[]> {
    let batch: Item[] = [];
    try {
      for await (const item of directory.items()) {
        batch.push(item);
        if (batch.length < sortedEntries) continue;
        yield inOrder(batch);
        batch = [];
      }
    } catch (cause) {
      this.#unreadable(prefix, cause);
    }
    if (batch.length > 0) yield inOrder(batch);
  }

  /** One entry, if it is a file to pack. @returns whether it is */
  async *#file(
    directory: OpenedDirectory,
    { key, type }: Item,
    names: MemberNames,
  ): AsyncGenerator<OpenedFile, boolean> {
    const name = names.prefix + names.of(key);
    if (!this.options.include(name)) return false;
    if (type === 'other') {
      this.#pass(name, 'is neither a file nor a directory');
      return false;
    }
    const opened = await this.#tried(name, () =>
      type === 'link' ? this.#target(directory, key) : directory.openFile(key),
    );
    if (opened === undefined) return false;
    if (opened === null) {
      this.#pass(name, 'is a link that leads to no file of this directory');
      return false;
    }
    try {
      // A stat of an open file is faster than a turn of the thread pool.
      const stats = fstatSync(opened.fd);
      const isFile = stats.isFile();
      if (isFile) yield { name, stats, file: opened };
      else this.#pass(name, type === 'link' ? 'is a link that leads to no file' : 'is no longer a file');
      return isFile;
    } finally {
      await opened.close();
    }
  }

  /** Opens the target of a link; null if it is not below the root. */
  async #target(directory: OpenedDirectory, key: string): Promise<FileHandle | null> {
    const place = await directory.resolve(key, this.root);
    const file = place?.pop();
    if (!place || file === undefined || !this.options.includeTarget([...place, file].join('/'))) return null;
    await using parent = await this.root.descend(place);
    return await parent.openFile(file);
  }

  /** Undefined if it cannot be opened; a note says so. */
  async #tried<T>(name: string, open: () => Promise<T>): Promise<T | undefined> {
    try {
      return await open();
    } catch (cause) {
      // The root has no name. If it cannot be opened there is nothing to pack.
      if (name === '') throw cause;
      this.#unreadable(name, cause);
      return undefined;
    }
  }

  #unreadable(name: string, cause: unknown): void {
    // If the root cannot be opened, packing fails.
    if (name === '' || isShortage(cause) || errorCode(cause) === 'ABORT_ERR') throw cause;
    this.#pass(name, `cannot be read: ${faultWithoutPath(cause)}`);
  }

  #pass(name: string, why: string): void {
    this.options.notes.add(`${quoteName(name)} ${why}, and was left out`);
  }
}

/**
 * Counts the files that `packTo` would pack, up to `most`.
 * @param source a directory, not a link to one
 * @throws the system's error if `source` is not a directory, or the reason of the signal
 */
export async function countFiles(source: string, most: number, signal?: AbortSignal): Promise<number> {
  const all = () => true;
  const notes = new Notes();
  let count = 0;
  for await (const { file } of walkFiles(source, {
    include: all,
    includeTarget: all,
    openUp: true,
    notes,
    signal,
  })) {
    signal?.throwIfAborted();
    if (file !== null) count += 1;
    if (count >= most) break;
  }
  return count;
}
