import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { platform } from 'node:os';
import path from 'node:path';
import { errorCode } from './error-code.js';

/** Something lies where a file of ours should: a link, a directory, a pipe, a second name of another file. */
export class NotOurFile extends Error {
  override readonly name = 'NotOurFile';
}

/** A directory that was opened without following a link; `path` leads to it whatever its name leads to later. */
export interface OpenDirectory extends Disposable {
  readonly path: string;
}

const directoryFlags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/**
 * Opens a directory that a job could have replaced by a link. Node has no `openat`; the path of an open descriptor
 * does the same on Linux. Elsewhere the last part of the path is checked and no more.
 * @throws the system's error: ENOTDIR or ELOOP for what is not a directory itself
 */
export function openDirectory(directory: string): OpenDirectory {
  if (platform() === 'win32') return { path: directory, [Symbol.dispose]: () => {} };
  const descriptor = openSync(directory, directoryFlags);
  return {
    path: platform() === 'linux' ? `/proc/self/fd/${descriptor}` : directory,
    [Symbol.dispose]: () => closeSync(descriptor),
  };
}

const isWritten = (flags: number): boolean => (flags & (constants.O_WRONLY | constants.O_RDWR)) !== 0;

/**
 * Opens a regular file of a directory that a job can write to. Neither the directory nor the file is a link that is
 * followed, a pipe holds nobody, and a file that has another name elsewhere is not written to.
 * @returns a descriptor
 * @throws NotOurFile, or the system's error
 */
export function openOwnFile(file: string, flags: number, mode = 0o600): number {
  using directory = openDirectory(path.dirname(file));
  const safe = flags | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  let descriptor: number;
  try {
    descriptor = openSync(path.join(directory.path, path.basename(file)), safe, mode);
  } catch (cause) {
    // A link; a directory opened for writing; a pipe without a reader.
    if (!['ELOOP', 'EISDIR', 'ENXIO'].includes(errorCode(cause))) throw cause;
    throw new NotOurFile(`'${path.basename(file)}' is not a regular file`, { cause });
  }
  const stats = fstatSync(descriptor);
  if (stats.isFile() && (stats.nlink <= 1 || !isWritten(flags))) return descriptor;
  closeSync(descriptor);
  throw new NotOurFile(`'${path.basename(file)}' is not a regular file of its own`);
}

/**
 * Reads a small file of such a directory.
 * @param maxBytes a longer one is none of ours
 * @returns undefined where there is none
 * @throws NotOurFile, or the system's error
 */
export function readOwnFile(file: string, maxBytes: number): string | undefined {
  let descriptor: number;
  try {
    descriptor = openOwnFile(file, constants.O_RDONLY);
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') return undefined;
    throw cause;
  }
  try {
    if (fstatSync(descriptor).size > maxBytes) {
      throw new NotOurFile(`'${path.basename(file)}' is longer than ${maxBytes} bytes`);
    }
    return readFileSync(descriptor, 'utf8');
  } finally {
    closeSync(descriptor);
  }
}
