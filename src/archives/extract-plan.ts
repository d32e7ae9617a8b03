import path from 'node:path';
import type { CentralDirectory, File as ZipEntry } from 'unzipper';
import { entryPaths } from './entry-path.js';
import { ArchiveError } from './errors.js';

/** Stored and deflated: what every zip program writes. */
const knownMethods = new Set([0, 8]);
const encryptedFlag = 0x1;
const fileTypeMask = 0o170000;
const regularFile = 0o100000;
const directoryType = 0o040000;

/** An entry and where it goes. */
export interface Target {
  readonly entry: ZipEntry;
  readonly path: string;
  readonly isDirectory: boolean;
}

/**
 * Where every entry goes. Refuses each that must not be written before the first one is.
 * @param reserved names at the top of `root` that no entry may take
 * @throws ArchiveError
 */
export function planEntries(
  directory: CentralDirectory,
  root: string,
  reserved: readonly string[] = [],
): Target[] {
  const seen = new Set<string>();
  const taken = new Set(reserved.map((name) => path.join(root, name)));
  const placeOf = entryPaths(root);
  return directory.files.map((entry) => {
    const target = placeOf(entry.path);
    if (target === null || taken.has(target)) {
      throw new ArchiveError('unsafe', `its entry '${entry.path}' has a name that cannot be extracted`);
    }
    const isDirectory = entry.path.endsWith('/');
    const type = (entry.externalFileAttributes >>> 16) & fileTypeMask;
    if (type !== 0 && type !== (isDirectory ? directoryType : regularFile)) {
      throw new ArchiveError('unsafe', `its entry '${entry.path}' is a link or a device, not a file`);
    }
    if (entry.flags & encryptedFlag || !knownMethods.has(entry.compressionMethod)) {
      throw new ArchiveError('corrupt', `its entry '${entry.path}' is encrypted or oddly compressed`);
    }
    if (seen.has(target)) throw new ArchiveError('unsafe', `it has two entries named '${entry.path}'`);
    seen.add(target);
    return { entry, path: target, isDirectory };
  });
}
