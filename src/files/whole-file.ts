import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fsyncSync,
  ftruncateSync,
  linkSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { isRealDirectory, namesIn } from './directories.js';
import { errorCode } from './errors.js';
import { lockPath } from './file-lock.js';
import { privateMode } from './modes.js';
import { openDirectory, openOwnFile, readOwnFile } from './own-file.js';
import { readSmallFile } from './read-file.js';
import { syncDescriptor, syncDirectory, syncDirectorySync } from './sync.js';

/** Milliseconds before each retry, 1.5 seconds in total. */
const waits = [10, 40, 150, 300, 1000];

/**
 * Whether Windows refuses the call because another program has the file open, or a file in the directory. Virus scanners and
 * indexers do so for a moment, so a retry helps.
 */
const isHeld = (cause: unknown): boolean =>
  process.platform === 'win32' && ['EPERM', 'EACCES', 'EBUSY'].includes(errorCode(cause));

/**
 * Renames a file or a directory, replacing any file of the new name and, except on Windows, any empty directory. Blocks.
 * @param move for tests
 * @throws the system's error
 */
export function replaceFile(from: string, to: string, move = renameSync): void {
  const clock = new Int32Array(new SharedArrayBuffer(4));
  for (const wait of waits) {
    try {
      move(from, to);
      return;
    } catch (cause) {
      if (!isHeld(cause) || isRealDirectory(to)) throw cause;
    }
    Atomics.wait(clock, 0, 0, wait);
  }
  move(from, to);
}

/** The text of a JSON file. */
export const jsonText = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;

/** The owner and mode of a file. */
interface FileAccess {
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
}

/** Gives an open file the owner and mode of another. Only root may change the owner. */
function takeOver(descriptor: number, { mode, uid, gid }: FileAccess): void {
  fchownSync(descriptor, uid, gid);
  fchmodSync(descriptor, mode & 0o777);
}

/** How a file is replaced. */
interface Replacement {
  /** False for a file that need not survive a power cut, after which it may be empty. */
  readonly isKept?: boolean;
  /** The file's mode before the umask; by default, only this user can read it. */
  readonly mode?: number;
  /** The owner and mode that the file gets instead. With `new`, the file must not exist yet. */
  readonly like?: FileAccess | 'new';
}

/**
 * A file's new text under a temporary name beside it. The temporary file is removed on disposal, unless `place` has renamed it.
 */
class PendingFile implements Disposable {
  readonly descriptor: number;
  readonly #directory;
  readonly #target: string;
  readonly #path: string;
  #isPlaced = false;

  /** Writes the text under the temporary name. @throws the system's error */
  constructor(file: string, text: string, mode = privateMode) {
    this.#directory = openDirectory(path.dirname(file));
    this.#target = path.join(this.#directory.path, path.basename(file));
    this.#path = `${this.#target}.${process.pid}.partial`;
    try {
      // A job may have made a link of this name, which must not be written through.
      rmSync(this.#path, { recursive: true, force: true });
      this.descriptor = openSync(this.#path, 'wx', mode);
    } catch (cause) {
      this.#directory[Symbol.dispose]();
      throw cause;
    }
    try {
      writeFileSync(this.descriptor, text);
    } catch (cause) {
      this[Symbol.dispose]();
      throw cause;
    }
  }

  get directory(): string {
    return this.#directory.path;
  }

  /** Gives the new text the file's name. @throws EEXIST if `isNew` and the file exists */
  place(isNew: boolean): void {
    if (isNew) linkSync(this.#path, this.#target);
    else replaceFile(this.#path, this.#target);
    this.#isPlaced = !isNew;
  }

  [Symbol.dispose](): void {
    closeSync(this.descriptor);
    if (!this.#isPlaced) rmSync(this.#path, { force: true });
    this.#directory[Symbol.dispose]();
  }
}

/**
 * Replaces a text file atomically: after a crash or a power cut, and for any reader, the file has either the old text or the new
 * one, never a part of it. A new file survives a power cut only after `syncDirectory`.
 * @throws the system's error: EEXIST for a file that must be new
 */
export function writeTextFile(
  file: string,
  text: string,
  { isKept = true, mode, like }: Replacement = {},
): void {
  using pending = new PendingFile(file, text, mode);
  if (typeof like === 'object') takeOver(pending.descriptor, like);
  if (isKept) fsyncSync(pending.descriptor);
  pending.place(like === 'new');
}

/** Removes the temporary files that killed processes left beside a file of `writeTextFile`. Nobody may be writing the file. */
export function removePartials(file: string): void {
  const { dir, base } = path.parse(file);
  for (const name of namesIn(dir)) {
    const isPartial = name.startsWith(`${base}.`) && /^\d+\.partial$/.test(name.slice(base.length + 1));
    if (isPartial) rmSync(path.join(dir, name), { force: true });
  }
}

/** Like `writeTextFile`, for a value that is written as JSON. */
export const writeJsonFile = (file: string, value: unknown, how?: Replacement): void =>
  writeTextFile(file, jsonText(value), how);

/**
 * Like `writeJsonFile`, but does not block the event loop during the disk write. The file, even a new one, survives a power cut
 * once the promise resolves. Calls for one file must not overlap.
 * @param isKept false if the text need not survive a power cut, which may leave an older text or part of this one
 */
export async function saveJsonFile(file: string, value: unknown, isKept = true): Promise<void> {
  using pending = new PendingFile(file, jsonText(value));
  if (isKept) await syncDescriptor(pending.descriptor);
  // Renamed synchronously: once the bytes are on disk, this is faster than starting a thread.
  pending.place(false);
  if (isKept) await syncDirectory(pending.directory);
}

/**
 * Reads a JSON file of this user; undefined if it does not exist.
 * @throws SyntaxError, NotSmallFile, or the system's error
 */
export function readJsonFile(file: string): unknown {
  try {
    return JSON.parse(readSmallFile(file));
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') return undefined;
    throw cause;
  }
}

/** Seconds to wait for another command that changes the same file. */
const patience = 10;
/** Maximum number of attempts if other commands keep creating the file in the meantime. */
const maxEdits = 5;

/** A path with links resolved, so that their target is replaced instead of the link. */
function realPath(file: string): string {
  try {
    return realpathSync(file);
  } catch (cause) {
    if (errorCode(cause) !== 'ENOENT') throw cause;
    return path.join(realpathSync(path.dirname(path.resolve(file))), path.basename(file));
  }
}

/** Locks an existing file. @returns a function that unlocks it; null if there is no file */
function lock(file: string): (() => void) | 'taken' | null {
  try {
    const outcome = lockPath(file, constants.O_RDONLY | constants.O_NONBLOCK, patience);
    if (outcome === 'taken') return outcome;
    // Where locks are unavailable, people must avoid changing the file at the same time.
    return typeof outcome === 'object' && 'descriptor' in outcome
      ? () => closeSync(outcome.descriptor)
      : () => {};
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') return null;
    throw cause;
  }
}

export interface EditOptions {
  /** Whether an existing file keeps its owner and mode; otherwise it belongs to this user alone. */
  readonly keepsAccess: boolean;
}

/**
 * The outcome of a change. `taken`: another command has the file locked; `replaced`: another command created the file during each
 * attempt.
 */
export type Edited = 'done' | 'taken' | 'replaced';

/**
 * Changes a JSON file, or creates it if it does not exist. Readers find either the old content or the new one; if two commands
 * change the file at the same time, one waits.
 * @param change returns the new content; gets the file's path, or null if the file does not exist. May throw
 * @throws the system's error, or what `change` throws
 */
export function editJsonFile(
  given: string,
  change: (file: string | null) => unknown,
  { keepsAccess }: EditOptions,
): Edited {
  const file = realPath(given);
  for (let attempt = 0; attempt < maxEdits; attempt += 1) {
    const unlock = lock(file);
    if (unlock === 'taken') return 'taken';
    try {
      const after = change(unlock && file);
      const access = keepsAccess && unlock ? { like: statSync(file) } : {};
      writeJsonFile(file, after, unlock ? access : { like: 'new' });
      syncDirectorySync(path.dirname(file));
      return 'done';
    } catch (cause) {
      // Another command created the file at the same time.
      if (unlock || errorCode(cause) !== 'EEXIST') throw cause;
    } finally {
      unlock?.();
    }
  }
  return 'replaced';
}

/** The name of the file that holds the reserved space. */
const reserveOf = (file: string): string => `${file}.reserved`;

/**
 * Reserves disk space for a small JSON file, so that the file can still be written when the disk is full.
 * @param bytes maximum size of the file
 * @param text the content that `readReserve` returns until then
 * @throws the system's error if there is no space
 */
export function reserveJsonFile(file: string, bytes: number, text = ''): void {
  rmSync(reserveOf(file), { recursive: true, force: true });
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
  const descriptor = openOwnFile(reserveOf(file), flags);
  try {
    const room = Buffer.alloc(bytes, ' ');
    room.write(text);
    writeFileSync(descriptor, room);
  } finally {
    closeSync(descriptor);
  }
}

/**
 * The text in the reserved space, including trailing spaces.
 * @returns undefined if no space is reserved
 * @throws NotOurFile, or the system's error
 */
export const readReserve = (file: string, maxBytes: number): string | undefined =>
  readOwnFile(reserveOf(file), maxBytes);

/**
 * Writes a file into the space reserved for it, once. Content and name then survive a power cut. A power cut in the middle may
 * leave neither the old text nor the new one, so the current file should be synced first.
 * @throws the system's error, or NotOurFile if somebody replaced the reserved file
 */
export function writeReservedJson(file: string, value: unknown): void {
  const text = Buffer.from(jsonText(value));
  const descriptor = openOwnFile(reserveOf(file), constants.O_WRONLY);
  try {
    writeFileSync(descriptor, text);
    ftruncateSync(descriptor, text.length);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  using directory = openDirectory(path.dirname(file));
  const target = path.join(directory.path, path.basename(file));
  renameSync(reserveOf(target), target);
  syncDirectorySync(directory.path);
}

/** Releases the reserved space. */
export const dropReserve = (file: string): void => rmSync(reserveOf(file), { recursive: true, force: true });
