import { type FileHandle, open } from 'node:fs/promises';
import path from 'node:path';
import { quoteName } from '../contract/quote.js';
import { errorCode } from '../files/error-code.js';
import { ArchiveError } from './errors.js';
import type { Target } from './extract-plan.js';
import type { MadeDirectories } from './made-directories.js';
import { extractFlags, extractMode } from './open-flags.js';

/**
 * What a system says of a name that no file can have there: it is a directory's, a link's or a FIFO's, too long, or
 * made of characters that the file system does not take.
 */
const unplaceable = ['EEXIST', 'EISDIR', 'ENOTDIR', 'ENAMETOOLONG', 'ELOOP', 'ENXIO', 'EINVAL', 'EILSEQ'];

/** An entry that cannot be written where it belongs; it is a fault of the archive, or of what lies there. */
export class UnplaceableEntry extends ArchiveError {
  constructor(target: Target, code: string, options?: ErrorOptions) {
    super('unsafe', `its entry ${quoteName(target.entry.path)} cannot be placed (${code})`, options);
  }
}

/**
 * Opens what an entry goes to, a file of its own or a directory, which needs no closing.
 * @throws UnplaceableEntry, or the system's error
 */
export async function openTarget(target: Target, directories: MadeDirectories): Promise<FileHandle | null> {
  try {
    directories.make(target.isDirectory ? target.path : path.dirname(target.path));
    if (target.isDirectory) return null;
    const file = await open(target.path, extractFlags, extractMode);
    if ((await file.stat()).isFile()) return file;
    await file.close();
  } catch (cause) {
    const code = errorCode(cause);
    throw unplaceable.includes(code) ? new UnplaceableEntry(target, code, { cause }) : cause;
  }
  throw new UnplaceableEntry(target, 'EEXIST');
}
