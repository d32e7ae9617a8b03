import { closeSync, constants, fstatSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { platform } from 'node:os';
import path from 'node:path';
import { errorCode } from './errors.js';
import { privateMode } from './modes.js';

/** Something other than our file has its name: a link, a directory, a FIFO, or a hard link to another file. */
export class NotOurFile extends Error {
  override readonly name = 'NotOurFile';
}

/** A directory that was opened without following a link. `path` leads to it even if its name is replaced later. */
export interface OpenDirectory extends Disposable {
  readonly path: string;
}

const directoryFlags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/**
 * Opens a directory that a job might have replaced with a link. Node has no `openat`; on Linux, paths through an open descriptor
 * have the same effect. On other systems, only the last part of the path is checked.
 * @throws the system's error: ENOTDIR or ELOOP if the path itself is not a directory
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
 * Opens a regular file in a directory that a job can write to. Follows no link to the directory or to the file, does not block on
 * a FIFO, and refuses to write to a file that has other hard links.
 * @returns a descriptor
 * @throws NotOurFile, or the system's error
 */
export function openOwnFile(file: string, flags: number, mode = privateMode): number {
  using directory = openDirectory(path.dirname(file));
  const safe = flags | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  let descriptor: number;
  try {
    descriptor = openSync(path.join(directory.path, path.basename(file)), safe, mode);
  } catch (cause) {
    // A link; a directory opened for writing; a FIFO without a reader.
    if (!['ELOOP', 'EISDIR', 'ENXIO'].includes(errorCode(cause))) throw cause;
    throw new NotOurFile(`'${path.basename(file)}' is not a regular file`, { cause });
  }
  const stats = fstatSync(descriptor);
  if (stats.isFile() && (stats.nlink <= 1 || !isWritten(flags))) return descriptor;
  closeSync(descriptor);
  throw new NotOurFile(`'${path.basename(file)}' is not a regular file of its own`);
}

/**
 * Reads a small file in a directory that a job can write to.
 * @param maxBytes a longer file is not ours
 * @param isOnlyName whether to refuse a file that has another hard link: a job can give its own name to any file of the
 *   server's user. This is unnecessary if nobody sees the content, and a backup may have linked our file
 * @returns undefined if there is no file
 * @throws NotOurFile, or the system's error
 */
export function readOwnFile(file: string, maxBytes: number, isOnlyName = false): string | undefined {
  let descriptor: number;
  try {
    descriptor = openOwnFile(file, constants.O_RDONLY);
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') return undefined;
    throw cause;
  }
  try {
    const { size, nlink } = fstatSync(descriptor);
    if (isOnlyName && nlink > 1) throw new NotOurFile(`'${path.basename(file)}' has another name elsewhere`);
    if (size > maxBytes) {
      throw new NotOurFile(`'${path.basename(file)}' is longer than ${maxBytes} bytes`);
    }
    return readFileSync(descriptor, 'utf8');
  } finally {
    closeSync(descriptor);
  }
}

/** The close-on-exec flag, as the kernel shows it: programs that this process starts do not inherit the file. */
const closeOnExec = 0o2000000;

/**
 * Closes files that the parent process left open, so that no job inherits them. Node opens its own files with the close-on-exec
 * flag, and at its start sets the flag on all descriptors up to the first gap above 15, so a file without the flag is not Node's.
 * Linux only.
 */
export function closeInherited(): void {
  if (platform() !== 'linux') return;
  for (const descriptor of readdirSync('/proc/self/fd').map(Number)) {
    if (descriptor <= 2) continue;
    try {
      const told = readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8');
      const flags = /^flags:\s*(\d+)/m.exec(told)?.[1];
      if (flags !== undefined && (Number.parseInt(flags, 8) & closeOnExec) === 0) closeSync(descriptor);
    } catch {
      // The descriptor was open only while the list was read.
    }
  }
}
