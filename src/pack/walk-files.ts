import { isUtf8 } from 'node:buffer';
import type { Stats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { quoteName } from '../contract/quote.js';
import { errorCode, faultWithoutPath, isShortage } from '../files/error-code.js';
import type { Notes } from '../files/notes.js';
import { MemberNames } from './member-names.js';
import { MisnamedMember } from './misnamed-member.js';
import { type Item, OpenedDirectory } from './opened-directory.js';

export interface WalkOptions {
  /** Which files are wanted, by their names in the archive. */
  readonly include: (name: string) => boolean;
  /** The same for what a link inside the directory leads to; its place relative to the root. */
  readonly includeTarget: (name: string) => boolean;
  /** Whether what this user owns and may not read is made readable. */
  readonly openUp: boolean;
  /** Whether what cannot be read, or has a name that is not UTF-8, ends the walk; it is noted otherwise. */
  readonly strict: boolean;
  readonly notes: Notes;
  readonly signal?: AbortSignal | undefined;
}

export interface WalkedFile {
  /** As the archive has it: relative to the root, with forward slashes. A directory's ends with one. */
  readonly name: string;
  readonly stats: Stats;
  /** Open until the next file is asked for; null for an empty directory. */
  readonly file: FileHandle | null;
}

/** Entries of a directory that are sorted, and held, at once. */
const sortedEntries = 10_000;

/** Directories that lie in each other: each costs an open of all above it. */
const deepest = 256;

/** A directory that is still to be walked. It shares what lies above it with those beside it: there may be many. */
interface Pending {
  readonly parent: Pending | null;
  readonly depth: number;
  readonly key: string;
  /** What the archive calls it, with a slash behind. */
  readonly name: string;
}

const top: Pending = { parent: null, depth: 0, key: '', name: '' };

/** The directories from the root to this one, without the root. */
function pathTo(directory: Pending): Pending[] {
  const found: Pending[] = [];
  for (let at = directory; at.parent; at = at.parent) found.push(at);
  return found.reverse();
}

const inOrder = (items: Item[]): Item[] => items.sort((a, b) => (a.key < b.key ? -1 : 1));

/**
 * The regular files and empty directories under `root`: a directory's files in the order of their names, then what
 * lies in its directories. A symbolic link counts as the file that it leads to while that lies under `root`. Whatever
 * else there is (links that leave it, FIFOs, what cannot be read) is noted and passed over. No path is looked up
 * twice and no link is followed, so that what a job has planted, or swaps meanwhile, leads nowhere else.
 * @throws the system's error where `root` is not a directory that can be read
 */
export async function* walkFiles(root: string, options: WalkOptions): AsyncGenerator<WalkedFile> {
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

  /** The files of one directory; its directories are added to those that are still to be walked. */
  async *directory(parent: Pending, pending: Pending[]): AsyncGenerator<WalkedFile> {
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
        else yield* this.#file(directory, item, names);
      }
    }
    if (isEmpty && prefix !== '' && this.options.include(prefix)) {
      yield { name: prefix, stats: await directory.handle.stat(), file: null };
    }
    // The one that is walked next is the last.
    for (const key of below.reverse()) {
      const name = `${names.of(key)}/`;
      this.#checkName(prefix + name, prefix, key);
      const depth = parent.depth + 1;
      if (depth <= deepest) pending.push({ parent, depth, key, name });
      else this.#pass(prefix + name, `lies more than ${deepest} directories deep`);
    }
  }

  /** Entries of a directory, so many at a time: one of millions must not be held whole. */
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

  async *#file(
    directory: OpenedDirectory,
    { key, type }: Item,
    names: MemberNames,
  ): AsyncGenerator<WalkedFile> {
    const name = names.prefix + names.of(key);
    if (!this.options.include(name)) return;
    if (type === 'other') {
      this.#pass(name, 'is neither a file nor a directory');
      return;
    }
    const opened = await this.#tried(name, () =>
      type === 'link' ? this.#target(directory, key) : directory.openFile(key),
    );
    if (opened === undefined) return;
    if (opened === null) {
      this.#pass(name, 'is a link that leads to no file of this directory');
      return;
    }
    try {
      const stats = await opened.stat();
      if (stats.isFile()) {
        this.#checkName(name, names.prefix, key);
        yield { name, stats, file: opened };
      } else this.#pass(name, type === 'link' ? 'is a link that leads to no file' : 'is no longer a file');
    } finally {
      await opened.close();
    }
  }

  /** Opens what a link leads to; null where that is not below the root. */
  async #target(directory: OpenedDirectory, key: string): Promise<FileHandle | null> {
    const place = await directory.resolve(key, this.root);
    const file = place?.pop();
    if (!place || file === undefined || !this.options.includeTarget([...place, file].join('/'))) return null;
    await using parent = await this.root.descend(place);
    return await parent.openFile(file);
  }

  /** Undefined where it cannot be opened, which is noted. */
  async #tried<T>(name: string, open: () => Promise<T>): Promise<T | undefined> {
    try {
      return await open();
    } catch (cause) {
      // The root has no name; without it there is nothing to pack.
      if (name === '') throw cause;
      this.#unreadable(name, cause);
      return undefined;
    }
  }

  /** @param name what the archive would call it */
  #checkName(name: string, prefix: string, key: string): void {
    const { strict, include } = this.options;
    const bytes = Buffer.from(key, 'latin1');
    if (strict && !isUtf8(bytes) && include(name)) throw new MisnamedMember(prefix + bytes.toString());
  }

  #unreadable(name: string, cause: unknown): void {
    const { strict, include } = this.options;
    // Of a directory that is not wanted nothing is missed; without the root there is nothing at all.
    if (name === '' || (strict && include(name)) || isShortage(cause) || errorCode(cause) === 'ABORT_ERR')
      throw cause;
    this.#pass(name === '' ? '.' : name, `cannot be read: ${faultWithoutPath(cause)}`);
  }

  #pass(name: string, why: string): void {
    this.options.notes.add(`${quoteName(name)} ${why}, and was left out`);
  }
}
