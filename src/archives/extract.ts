import { constants } from 'node:fs';
import { mkdir, open } from 'node:fs/promises';
import path from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { crc32 } from 'node:zlib';
import unzipper, { type CentralDirectory, type File as ZipEntry } from 'unzipper';
import { errorCode } from '../files/error-code.js';
import { entryCount } from './entry-count.js';
import { entryPath } from './entry-path.js';
import { ArchiveError } from './errors.js';

export interface ExtractOptions {
  /** Most bytes that all files together may come to. */
  readonly maxBytes: number;
  readonly maxEntries: number;
  /** Most bytes that one file may come to; `maxBytes` where it is not given. */
  readonly maxFileBytes?: number;
  /** Names at the top of the destination that no entry may take. */
  readonly reserved?: readonly string[];
  readonly signal?: AbortSignal;
  /** Called with the bytes written so far and the bytes to come, as the archive states them. */
  readonly onProgress?: (bytes: number, total: number) => void;
}

export interface Extracted {
  readonly files: number;
  readonly bytes: number;
}

/** Stored and deflated: what every zip program writes. */
const knownMethods = new Set([0, 8]);
const encryptedFlag = 0x1;
const fileTypeMask = 0o170000;
const regularFile = 0o100000;
const directoryType = 0o040000;

interface Target {
  readonly entry: ZipEntry;
  readonly path: string;
  readonly isDirectory: boolean;
}

/** Refuses every entry that must not be written before the first one is. */
function planEntries(directory: CentralDirectory, root: string, options: ExtractOptions): Target[] {
  const seen = new Set<string>();
  const reserved = new Set(options.reserved?.map((name) => path.join(root, name)));
  return directory.files.map((entry) => {
    const target = entryPath(root, entry.path);
    if (target === null || reserved.has(target)) {
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

/** Passes a file's bytes on, bounded, and checks them against what the archive says of them. */
function checked(entry: ZipEntry, allowed: number, onBytes: (bytes: number) => void): Transform {
  let bytes = 0;
  let sum = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes > allowed) {
        done(new ArchiveError('tooLarge', `its entry '${entry.path}' grows past the limit`));
        return;
      }
      sum = crc32(chunk, sum);
      onBytes(chunk.length);
      done(null, chunk);
    },
    flush(done) {
      const { uncompressedSize, crc32: expected } = entry as ZipEntry & { crc32: number };
      const whole = bytes === uncompressedSize && sum === expected;
      done(whole ? null : new ArchiveError('corrupt', `its entry '${entry.path}' is damaged`));
    },
  });
}

async function readDirectory(archive: string, options: ExtractOptions): Promise<CentralDirectory> {
  await using file = await open(archive);
  const count = await entryCount(file);
  if (count > options.maxEntries) {
    throw new ArchiveError('tooMany', `it has ${count} entries, more than the ${options.maxEntries} allowed`);
  }
  try {
    return await unzipper.Open.file(archive);
  } catch (cause) {
    throw new ArchiveError('corrupt', 'its directory cannot be read', { cause });
  }
}

/**
 * Extracts a zip archive under `destination`, within bounds that are counted while bytes are written: an
 * archive's own figures may lie. Names, links and duplicates are checked before the first byte is written.
 * Existing files are replaced; existing links are not followed.
 * @throws ArchiveError for an archive that is damaged, unsafe or past the bounds
 */
export async function extractArchive(
  archive: string,
  destination: string,
  options: ExtractOptions,
): Promise<Extracted> {
  const targets = planEntries(await readDirectory(archive, options), destination, options);
  const total = targets.reduce((sum, { entry }) => sum + entry.uncompressedSize, 0);
  if (total > options.maxBytes) {
    throw new ArchiveError(
      'tooLarge',
      `it extracts to ${total} bytes, more than the limit of ${options.maxBytes}`,
    );
  }
  let bytes = 0;
  let files = 0;
  const made = new Set<string>();
  const makeDirectory = async (directory: string) => {
    if (!made.has(directory)) await mkdir(directory, { recursive: true });
    made.add(directory);
  };
  await makeDirectory(destination);
  for (const target of targets) {
    options.signal?.throwIfAborted();
    if (target.isDirectory) {
      await makeDirectory(target.path).catch((cause) => {
        throw unplaceable(cause, target.entry);
      });
      continue;
    }
    const file = await openTarget(target, makeDirectory);
    const allowed = Math.min(options.maxFileBytes ?? options.maxBytes, options.maxBytes - bytes);
    const count = (more: number) => {
      bytes += more;
      options.onProgress?.(bytes, total);
    };
    try {
      await pipeline(
        target.entry.stream(),
        checked(target.entry, allowed, count),
        file.createWriteStream(),
        options.signal ? { signal: options.signal } : {},
      );
    } catch (cause) {
      throw damaged(cause, target.entry);
    } finally {
      await file.close();
    }
    files += 1;
  }
  return { files, bytes };
}

async function openTarget({ entry, path: file }: Target, makeDirectory: (path: string) => Promise<void>) {
  const flags = constants.O_CREAT | constants.O_TRUNC | constants.O_WRONLY | constants.O_NOFOLLOW;
  try {
    await makeDirectory(path.dirname(file));
    return await open(file, flags, 0o644);
  } catch (cause) {
    throw unplaceable(cause, entry);
  }
}

/** A name that no file can have there (it is a directory's, a link's, or too long) is a fault of the archive. */
function unplaceable(cause: unknown, entry: ZipEntry): unknown {
  const code = errorCode(cause);
  if (!['EEXIST', 'EISDIR', 'ENOTDIR', 'ENAMETOOLONG', 'ELOOP'].includes(code)) return cause;
  const name = entry.path.length > 200 ? `${entry.path.slice(0, 200)}...` : entry.path;
  return new ArchiveError('unsafe', `its entry '${name}' cannot be placed (${code})`, { cause });
}

/** A fault of the inflater is a fault of the archive; one of the disk is not. */
function damaged(cause: unknown, entry: ZipEntry): unknown {
  if (cause instanceof ArchiveError || !(cause instanceof Error)) return cause;
  const code = errorCode(cause);
  const ofArchive = code.startsWith('Z_') || code === 'ERR_OUT_OF_RANGE' || cause.message === 'FILE_ENDED';
  return ofArchive ? new ArchiveError('corrupt', `its entry '${entry.path}' is damaged`, { cause }) : cause;
}
