import {
  closeSync,
  fchmodSync,
  fchownSync,
  fsyncSync,
  linkSync,
  openSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { rename } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { namesIn } from './directories.js';
import { errorCode } from './errors.js';
import { openDirectory } from './own-file.js';
import { readSmallFile } from './small-file.js';
import { syncDescriptor, syncDirectory } from './sync.js';

/** How long to wait before each further try, in milliseconds: 1.5 seconds in all. */
const waits = [10, 40, 150, 300, 1000];

/** Windows refuses to move or replace a file that a virus scanner or an indexer has open. */
const isHeld = (cause: unknown): boolean =>
  process.platform === 'win32' && ['EPERM', 'EACCES', 'EBUSY'].includes(errorCode(cause));

/**
 * Renames a file, replacing any file of that name.
 * @param move for tests
 * @throws the system's error
 */
export async function replaceFile(from: string, to: string, move = rename): Promise<void> {
  for (const wait of waits) {
    try {
      await move(from, to);
      return;
    } catch (cause) {
      if (!isHeld(cause)) throw cause;
    }
    await sleep(wait);
  }
  await move(from, to);
}

/** The same, blocking. */
export function replaceFileSync(from: string, to: string, move = renameSync): void {
  const clock = new Int32Array(new SharedArrayBuffer(4));
  for (const wait of waits) {
    try {
      move(from, to);
      return;
    } catch (cause) {
      if (!isHeld(cause)) throw cause;
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

/** Gives an open file the owner and the mode of another one. Only root may give a file away. */
function takeOver(descriptor: number, { mode, uid, gid }: FileAccess): void {
  fchownSync(descriptor, uid, gid);
  fchmodSync(descriptor, mode & 0o777);
}

/** The name of a new file is taken in one step, and never from another file. */
function nameNew(from: string, to: string): void {
  try {
    linkSync(from, to);
  } finally {
    rmSync(from, { force: true });
  }
}

/** How a file is replaced. */
interface Replacement {
  /** False for a file that nobody needs after a power cut; it may then be empty. */
  readonly isKept?: boolean;
  /** The file whose owner and mode it gets; otherwise only this user can read it. With `new` it must not exist yet. */
  readonly like?: FileAccess | 'new';
}

/**
 * Replaces a text file atomically: a reader, a crash or a power cut finds the old text or the new one, never a part of it.
 * A file that is new survives a power cut only after `syncDirectory`.
 * @throws the system's error: EEXIST for a file that was to be new
 */
export function writeTextFile(file: string, text: string, { isKept = true, like }: Replacement = {}): void {
  using directory = openDirectory(path.dirname(file));
  const target = path.join(directory.path, path.basename(file));
  const partial = `${target}.${process.pid}.partial`;
  // A job may have made a link of this name, which must not be written through.
  rmSync(partial, { recursive: true, force: true });
  try {
    const descriptor = openSync(partial, 'wx', 0o600);
    try {
      writeFileSync(descriptor, text);
      if (typeof like === 'object') takeOver(descriptor, like);
      if (isKept) fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    if (like === 'new') nameNew(partial, target);
    else replaceFileSync(partial, target);
  } catch (cause) {
    rmSync(partial, { force: true });
    throw cause;
  }
}

/** Removes what `writeTextFile` left beside a file because its process was killed. Nobody may be writing the file. */
export function removePartials(file: string): void {
  const { dir, base } = path.parse(file);
  for (const name of namesIn(dir)) {
    const isPartial = name.startsWith(`${base}.`) && /^\d+\.partial$/.test(name.slice(base.length + 1));
    if (isPartial) rmSync(path.join(dir, name), { force: true });
  }
}

/** `writeTextFile` with a value as JSON. */
export const writeJsonFile = (file: string, value: unknown, how?: Replacement): void =>
  writeTextFile(file, jsonText(value), how);

async function writeNew(file: string, text: string, isKept: boolean): Promise<void> {
  const descriptor = openSync(file, 'wx', 0o600);
  try {
    writeFileSync(descriptor, text);
    if (isKept) await syncDescriptor(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/**
 * `writeJsonFile` without blocking the event loop while the disk writes. The file, also a new one, survives a power cut
 * once the promise resolves. Calls for one file must not overlap.
 * @param isKept false if nobody needs the text after a power cut, which may leave an older text or part of this one
 */
export async function saveJsonFile(file: string, value: unknown, isKept = true): Promise<void> {
  using directory = openDirectory(path.dirname(file));
  const target = path.join(directory.path, path.basename(file));
  const partial = `${target}.${process.pid}.partial`;
  rmSync(partial, { recursive: true, force: true });
  try {
    await writeNew(partial, jsonText(value), isKept);
    // Not in a thread: once the bytes are on the disk, this is faster than starting a thread.
    await replaceFile(partial, target, async (from, to) => renameSync(from, to));
    if (isKept) await syncDirectory(directory.path);
  } catch (cause) {
    rmSync(partial, { force: true });
    throw cause;
  }
}

/**
 * Reads a JSON file of this user's own; undefined where there is none.
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
