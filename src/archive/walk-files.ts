import { isUtf8 } from 'node:buffer';
import { constants, type Stats } from 'node:fs';
import { chmod, type FileHandle, lstat, open, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { maxEntries, quoteName } from '../contract/index.js';
import {
  errorCode,
  faultWithoutPath,
  freeName,
  isShortage,
  Notes,
  type WalkedDirectory,
  type WalkedEntry,
  walkDirectories,
} from '../files/index.js';
import { maxParts } from './entry-places.js';
import { carriedPart, changedName } from './member-names.js';

/** Bytes to pack, or a range of the packed file to copy (`end` is exclusive). */
export type PackedPiece = Uint8Array | { readonly start: number; readonly end: number };

/** A file that is being packed. */
export interface OpenedFile {
  readonly name: string;
  readonly stats: Stats;
  /** Open until the next file is requested; null for an empty directory. */
  readonly file: FileHandle | null;
  /** What is packed instead of the file's content. */
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

/** Flags that follow no link and do not block on a FIFO without a writer. */
const readFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Maximum depth of directories whose files can be extracted again. */
const maxDepth = maxParts - 1;

/** Adds permissions that the file's owner lacks, if this process runs as the owner. Returns false if nothing was changed. */
async function addPermissions(target: Buffer, permissions: number): Promise<boolean> {
  const { uid, mode } = await lstat(target);
  if (uid !== process.geteuid?.() || (mode & permissions) === permissions) return false;
  await chmod(target, (mode & 0o7777) | permissions);
  return true;
}

/**
 * Yields the regular files and empty directories under `root`: first the files of a directory, sorted by name, then the content
 * of its directories. A symbolic link to a file under `root` counts as that file. Everything else (links that lead out of `root`,
 * FIFOs, unreadable files) is skipped with a note. The content of `root` must not change meanwhile: a result is packed only when
 * no process of its job is left.
 * @throws the system's error if `root` is not a readable directory
 */
export async function* walkFiles(root: string, options: WalkOptions): AsyncGenerator<OpenedFile> {
  if (!(await lstat(root)).isDirectory())
    throw Object.assign(new Error('Not a directory'), { code: 'ENOTDIR' });
  yield* new FileWalk(path.resolve(root), await realpath(root), options).files();
}

class FileWalk {
  /** The names of directories in the archive, with a slash at the end, by their paths (bytes as Latin-1). */
  readonly #names = new Map<string, string>();

  constructor(
    private readonly root: string,
    private readonly real: string,
    private readonly options: WalkOptions,
  ) {}

  async *files(): AsyncGenerator<OpenedFile> {
    const { openUp, signal } = this.options;
    if (openUp) await addPermissions(Buffer.from(this.root), 0o500);
    const directories = walkDirectories(this.root, {
      maxEntries: 2 * maxEntries,
      enters: (entry, depth) => this.#enters(entry, depth),
      onUnreadable: (directory, cause) => this.#passUnreadable(this.#nameOf(directory), cause),
      signal,
    });
    for await (const directory of directories) yield* this.#filesOf(directory);
  }

  async #enters({ path: directory }: WalkedEntry, depth: number): Promise<boolean> {
    if (depth > maxDepth) {
      this.#pass(this.#nameOf(directory), `lies more than ${maxDepth} directories deep`);
      return false;
    }
    // If the permissions can't be added, listing the directory fails and says so.
    if (this.options.openUp) await addPermissions(directory, 0o500).catch(() => {});
    return true;
  }

  #nameOf(directory: Buffer): string {
    return this.#names.get(directory.toString('latin1')) ?? '';
  }

  async *#filesOf({ path: directory, entries }: WalkedDirectory): AsyncGenerator<OpenedFile> {
    const prefix = this.#nameOf(directory);
    this.#names.delete(directory.toString('latin1'));
    if (entries.length === 0 && prefix !== '' && this.options.include(prefix)) {
      yield { name: prefix, stats: await stat(directory), file: null };
    }
    const nameIn = memberNames(prefix, entries, this.options.notes);
    for (const entry of entries) {
      if (entry.kind === 'directory') continue;
      if (!(yield* this.#file(entry, prefix + nameIn(entry)))) await this.options.onLeftOut?.();
    }
    for (const entry of entries)
      if (entry.kind === 'directory')
        this.#names.set(entry.path.toString('latin1'), `${prefix}${nameIn(entry)}/`);
  }

  /** Yields an entry if it is a file to pack. @returns whether it was one */
  async *#file({ path: place, kind }: WalkedEntry, name: string): AsyncGenerator<OpenedFile, boolean> {
    if (!this.options.include(name)) return false;
    if (kind === 'other') return this.#pass(name, 'is neither a file nor a directory');
    const target = kind === 'link' ? await this.#targetOf(place) : place;
    if (target === null) return this.#pass(name, 'is a link that leads to no file of this directory');
    let file: FileHandle;
    try {
      file = await this.#open(target);
    } catch (cause) {
      return this.#passUnreadable(name, cause);
    }
    try {
      const stats = await file.stat();
      if (!stats.isFile()) return this.#pass(name, 'is a link that leads to no file');
      yield { name, stats, file };
      return true;
    } finally {
      await file.close();
    }
  }

  /** The target of a link; null if it is not below the root. */
  async #targetOf(link: Buffer): Promise<Buffer | null> {
    const target = await realpath(link, { encoding: 'buffer' }).catch(() => null);
    const prefix = Buffer.from(this.real + path.sep);
    if (!target?.subarray(0, prefix.length).equals(prefix)) return null;
    return this.options.includeTarget(target.subarray(prefix.length).toString()) ? target : null;
  }

  async #open(place: Buffer): Promise<FileHandle> {
    try {
      return await open(place, readFlags);
    } catch (cause) {
      const isRefused = errorCode(cause) === 'EACCES' && this.options.openUp;
      if (!isRefused || !(await addPermissions(place, 0o400).catch(() => false))) throw cause;
      return await open(place, readFlags);
    }
  }

  #passUnreadable(name: string, cause: unknown): false {
    if (isShortage(cause)) throw cause;
    return this.#pass(name, `cannot be read: ${faultWithoutPath(cause)}`);
  }

  #pass(name: string, why: string): false {
    this.options.notes.add(`${quoteName(name)} ${why}, and was left out`);
    return false;
  }
}

/**
 * Chooses the names of a directory's entries in the archive. Names in a zip archive are UTF-8: a name whose bytes are not valid
 * UTF-8 is decoded as Latin-1. A changed name is numbered if another entry of the directory already has it.
 * @param prefix the directory's own name in the archive; empty, or it ends with a slash
 */
function memberNames(prefix: string, entries: readonly WalkedEntry[], notes: Notes) {
  const taken = new Set(entries.map(({ name }) => name.toString()));
  const counts = new Map<string, number>();
  return ({ name: bytes }: WalkedEntry): string => {
    const isText = isUtf8(bytes);
    const own = bytes.toString(isText ? 'utf8' : 'latin1');
    const carried = carriedPart(own, prefix === '');
    if (isText && carried === own) return own;
    const name = freeName(carried, counts, (each) => taken.has(each));
    taken.add(name);
    notes.add(changedName(prefix + name, isText));
    return name;
  };
}

/**
 * Counts the files that `packTo` would pack, up to `max`.
 * @param source a directory, not a link to one
 * @throws the system's error if `source` is not a directory, or the reason of the signal
 */
export async function countFiles(source: string, max: number, signal?: AbortSignal): Promise<number> {
  const all = () => true;
  const options = { include: all, includeTarget: all, openUp: true, notes: new Notes(), signal };
  let count = 0;
  for await (const { file } of walkFiles(source, options)) {
    signal?.throwIfAborted();
    if (file !== null) count += 1;
    if (count >= max) break;
  }
  return count;
}
