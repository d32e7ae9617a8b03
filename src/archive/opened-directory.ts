import { existsSync, lstatSync, constants as system } from 'node:fs';
import { chmod, type FileHandle, lstat, open, opendir, realpath } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { errorCode, isShortage } from '../files/index.js';

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = system;

/** Linux's open flag for a descriptor that needs no read permission; Node exports no constant for it. */
const O_PATH = 0o10000000;

/** Follows no link, and does not block on a FIFO that has no writer. */
const readFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK;

/** On Linux, an open directory can be reached through its descriptor, even if its path is replaced in the meantime. */
const hasDescriptorPaths = process.platform === 'linux' && existsSync('/proc/self/fd');

export interface OpenOptions {
  /** Whether to add the owner's read permission to entries that belong to this process's user and lack it. */
  readonly openUp: boolean;
  readonly signal?: AbortSignal | undefined;
}

export interface Item {
  /** The bytes of its name, one character per byte. */
  readonly key: string;
  readonly type: 'directory' | 'file' | 'link' | 'other';
}

/** Milliseconds between two attempts, and the number of attempts: half a minute in all. */
const retryPause = 250;
const tries = 120;

/**
 * Retries a call while the machine is short of descriptors or memory, so that a file does not count as unreadable only
 * because the server is busy.
 * @throws any other error of the call at once, and the shortage after the last try
 */
async function retryShortage<T>(call: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (let left = tries; ; left -= 1) {
    try {
      return await call();
    } catch (cause) {
      if (left === 0 || !isShortage(cause)) throw cause;
    }
    await delay(retryPause, undefined, signal ? { signal } : {});
  }
}

/** The bytes of a name that has one character per byte. */
const bytesOf = (key: string): Buffer => Buffer.from(key, 'latin1');

/** Adds permissions that the owner lacks, if this process's user is the owner. False if nothing was changed. */
async function openUp(target: Buffer, rights: number): Promise<boolean> {
  if (!hasDescriptorPaths) return false;
  // Changed through the descriptor: the path may lead to something else by now.
  await using handle = await open(target, O_PATH | O_NOFOLLOW);
  const { uid, mode } = await handle.stat();
  if (uid !== process.geteuid?.() || (mode & rights) === rights) return false;
  await chmod(`/proc/self/fd/${handle.fd}`, (mode & 0o7777) | rights);
  return true;
}

async function openReadable(
  target: Buffer,
  flags: number,
  rights: number,
  options: OpenOptions,
): Promise<FileHandle> {
  try {
    return await retryShortage(() => open(target, flags), options.signal);
  } catch (cause) {
    const isRefused = errorCode(cause) === 'EACCES' && options.openUp;
    if (!isRefused || !(await openUp(target, rights).catch(() => false))) throw cause;
    return await open(target, flags);
  }
}

/**
 * A directory that was opened without following a link, and its entries. Entries are reached through the directory's
 * descriptor, so replacing a part of the path meanwhile does not lead elsewhere. On systems without descriptor paths,
 * ordinary paths are used and only their last part is checked for links.
 */
export class OpenedDirectory implements AsyncDisposable {
  private constructor(
    readonly handle: FileHandle,
    private readonly place: Buffer,
    private readonly options: OpenOptions,
    private readonly isOwn = true,
  ) {}

  /** @throws the system's error if it is a link or not a directory */
  static async open(directory: string, options: OpenOptions): Promise<OpenedDirectory> {
    const opened = await OpenedDirectory.#open(Buffer.from(path.resolve(directory)), options);
    return opened.#searchable();
  }

  static async #open(target: Buffer, options: OpenOptions): Promise<OpenedDirectory> {
    // Listing a directory needs read permission; opening its entries needs search permission.
    const handle = await openReadable(target, readFlags | O_DIRECTORY, 0o500, options);
    const place = hasDescriptorPaths ? Buffer.from(`/proc/self/fd/${handle.fd}`) : target;
    return new OpenedDirectory(handle, place, options);
  }

  /**
   * This directory (if there are no keys), or one below it, opened step by step. The caller closes it, which leaves this
   * one open.
   */
  async descend(keys: readonly string[]): Promise<OpenedDirectory> {
    const [first, ...more] = keys;
    if (first === undefined) return new OpenedDirectory(this.handle, this.place, this.options, false);
    let at = await OpenedDirectory.#open(this.#pathOf(first), this.options);
    for (const key of more) {
      await using parent = at;
      at = await OpenedDirectory.#open(parent.#pathOf(key), this.options);
    }
    return at.#searchable();
  }

  /** Opens a file of this directory for reading. It may turn out to be anything except a link. */
  async openFile(key: string): Promise<FileHandle> {
    return openReadable(this.#pathOf(key), readFlags, 0o400, this.options);
  }

  has(name: string): boolean {
    return (
      lstatSync(this.#pathOf(Buffer.from(name).toString('latin1')), { throwIfNoEntry: false }) !== undefined
    );
  }

  /** The target of a link of this directory, as keys below `root`; null if the target is not below `root`. */
  async resolve(key: string, root: OpenedDirectory): Promise<string[] | null> {
    try {
      const top = await realpath(root.place, { encoding: 'buffer' });
      const target = await realpath(this.#pathOf(key), { encoding: 'buffer' });
      const prefix = `${top.toString('latin1')}${path.sep}`;
      const place = target.toString('latin1');
      return place.startsWith(prefix) ? place.slice(prefix.length).split(path.sep) : null;
    } catch {
      return null;
    }
  }

  /** Its entries, in the order of the file system. */
  async *items(): AsyncGenerator<Item> {
    const listed = await retryShortage(
      // As bytes, since a name need not be UTF-8; the types do not list this encoding.
      () => opendir(this.place.toString(), { encoding: 'buffer' as BufferEncoding, bufferSize: 1024 }),
      this.options.signal,
    );
    for await (const entry of listed) {
      const key = Buffer.from(entry.name).toString('latin1');
      if (entry.isFile()) yield { key, type: 'file' };
      else if (entry.isDirectory()) yield { key, type: 'directory' };
      else yield { key, type: entry.isSymbolicLink() ? 'link' : 'other' };
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.isOwn) await this.handle.close();
  }

  #pathOf(key: string): Buffer {
    return Buffer.concat([this.place, Buffer.from(path.sep), bytesOf(key)]);
  }

  /** Checks that the entries can be opened; a directory may allow only listing. Closes it if they cannot. */
  async #searchable(): Promise<this> {
    try {
      await lstat(this.#pathOf('.')).catch((cause) => this.#makeSearchable(cause));
      return this;
    } catch (cause) {
      await this.handle.close();
      throw cause;
    }
  }

  async #makeSearchable(cause: unknown): Promise<void> {
    const { uid, mode } = await this.handle.stat();
    const isOurs = this.options.openUp && uid === process.geteuid?.();
    if (errorCode(cause) !== 'EACCES' || !isOurs) throw cause;
    await this.handle.chmod((mode & 0o7777) | 0o500);
  }
}
