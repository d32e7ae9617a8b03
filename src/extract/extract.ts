import type { FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { crc32, createInflateRaw } from 'node:zlib';
import { quoteName } from '../contract/quote.js';
import { errorCode } from '../files/error-code.js';
import { makeDirectory } from '../files/make-directory.js';
import { Notes } from '../files/notes.js';
import { TimeSlice } from '../files/time-slice.js';
import { ArchiveSource } from './archive-source.js';
import { copyStored } from './copy-stored.js';
import { diskCost } from './disk-cost.js';
import { isDeflated, placeOfContent } from './entry-content.js';
import { ArchiveError, damagedEntry } from './errors.js';
import { planEntries, type Target } from './extract-plan.js';
import { MadeDirectories } from './made-directories.js';
import { openTarget, UnplaceableEntry } from './open-target.js';
import { readDirectory } from './read-directory.js';
import { extractSmallFiles } from './small/index.js';
import type { ZipEntry } from './zip-entry.js';

export interface ExtractOptions {
  /** Most bytes that all files and directories together may take of the disk. */
  readonly maxBytes: number;
  /** Most files and directories, including directories that only appear in the names of files. */
  readonly maxEntries: number;
  /** Most bytes of one file; by default `maxBytes`. */
  readonly maxFileBytes?: number;
  /** Names at the top of the destination that no entry may take. */
  readonly reserved?: readonly string[];
  /**
   * Whether an entry whose name is impossible here is renamed or left out, with a note; otherwise the archive is refused.
   * A name that leads out of the destination always refuses the archive.
   */
  readonly lenient?: boolean;
  /** Whether a file that exists stays as it is, and the entry of its name is not extracted; otherwise it is replaced. */
  readonly keepsFiles?: boolean;
  /** The system whose rules for names apply; by default this machine's. */
  readonly platform?: NodeJS.Platform;
  readonly signal?: AbortSignal;
  /** Called with the bytes written so far, and the bytes in all as the archive states them. */
  readonly onProgress?: (bytes: number, total: number) => void;
  /**
   * Called before anything is written, with the number of files and directories, the bytes that they will take of the disk,
   * and those of them that are content of files.
   */
  readonly onPlan?: (entries: number, bytes: number, content: number) => void;
  /** Called for each file and directory that is made. */
  readonly onMake?: () => void;
}

export interface Extracted {
  readonly files: number;
  readonly bytes: number;
  /** Entries that were left out because something else has their place. Always 0 where names are strict. */
  readonly unplaced: number;
  /** One sentence for each entry that was renamed or left out; past 20 the last one says how many more there are. */
  readonly notes: readonly string[];
}

/** Passes the bytes of a file on, up to a limit, and checks them against the size and checksum that the archive states. */
function checked(entry: ZipEntry, allowed: number, onBytes: (bytes: number) => void): Transform {
  let bytes = 0;
  let sum = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes > allowed) {
        done(new ArchiveError('tooLarge', `its entry ${quoteName(entry.path)} grows past the limit`));
        return;
      }
      sum = crc32(chunk, sum);
      onBytes(chunk.length);
      done(null, chunk);
    },
    flush(done) {
      const whole = bytes === entry.uncompressedSize && sum === entry.crc32;
      done(whole ? null : damagedEntry(entry.path));
    },
  });
}

/**
 * Extracts a zip archive under `destination`. Limits are counted while bytes are written, because the sizes that an archive
 * states may be wrong. Names, links and duplicates are checked before the first byte is written. An existing file is
 * replaced, if it may be, only by a complete one. No symbolic or hard link below the destination is followed.
 * @throws ArchiveError for an archive that is damaged, unsafe or past the bounds
 */
export async function extractArchive(
  archive: string,
  destination: string,
  options: ExtractOptions,
): Promise<Extracted> {
  await using source = await ArchiveSource.open(archive);
  const root = path.resolve(destination);
  const notes = new Notes();
  const { lenient = false, keepsFiles = false, reserved = [], platform = process.platform } = options;
  const slice = new TimeSlice();
  const targets = await planEntries(await readDirectory(source, options.maxEntries, slice), {
    root,
    reserved,
    lenient,
    platform,
    notes,
    slice,
  });
  const cost = await diskCost(targets, root, options.maxEntries, slice);
  const { content: total, overhead } = cost;
  if (total + overhead > options.maxBytes) {
    throw new ArchiveError(
      'tooLarge',
      `it extracts to ${total + overhead} bytes, its directories among them, more than the limit of ${options.maxBytes}`,
    );
  }
  options.onPlan?.(cost.entries, total + overhead, total);
  let bytes = 0;
  let files = 0;
  let unplaced = 0;
  const { signal, maxFileBytes = options.maxBytes } = options;
  const onBytes = (more: number) => {
    bytes += more;
    options.onProgress?.(bytes, total);
  };
  makeDirectory(root);
  const directories = new MadeDirectories(root);
  // If a file and a directory have the same name, lenient extraction makes the one that comes first in the archive.
  if (!lenient) await directories.makeAll(cost.directories, slice, { signal, onMake: options.onMake });

  const onFile = ({ entry }: Target) => {
    files += 1;
    options.onMake?.();
    onBytes(entry.uncompressedSize);
  };
  const rest = await extractSmallFiles(targets, {
    archive: source.file.fd,
    maxFileBytes,
    directories,
    keepsFiles,
    signal,
    onFile,
  });

  for (const target of rest) {
    signal?.throwIfAborted();
    await slice.pause();
    const opened = await openTarget(target, directories, keepsFiles).catch((cause) => {
      if (!lenient || !(cause instanceof UnplaceableEntry)) throw cause;
      unplaced += 1;
      notes.add(`${quoteName(target.entry.path)} was not extracted: something else is in its place`);
    });
    if (!opened) continue;
    options.onMake?.();
    const allowed = Math.min(maxFileBytes, options.maxBytes - overhead - bytes);
    try {
      await writeEntry(source, target.entry, opened.file, allowed, onBytes, signal);
      await opened.keep();
    } catch (cause) {
      await opened.discard();
      throw source.failure ?? damaged(cause, target.entry);
    }
    files += 1;
  }
  return { files, bytes, unplaced, notes: notes.list() };
}

/** Writes the bytes of one entry, at most `allowed` of them, and checks them. */
async function writeEntry(
  source: ArchiveSource,
  entry: ZipEntry,
  file: FileHandle,
  allowed: number,
  onBytes: (bytes: number) => void,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (!isDeflated(entry) && entry.uncompressedSize <= allowed) {
    await copyStored(source, entry, file, onBytes, signal);
    return;
  }
  const check = checked(entry, allowed, onBytes);
  const packed = source.stream(await placeOfContent(source, entry), entry.compressedSize);
  const inflate = isDeflated(entry) ? createInflateRaw() : null;
  const steps = inflate ? [packed, inflate, check] : [packed, check];
  await pipeline([...steps, file.createWriteStream()], signal ? { signal } : {});
  // What is behind the end of the packed bytes is no part of them.
  if (inflate && inflate.bytesWritten !== entry.compressedSize) throw damagedEntry(entry.path);
}

/** Turns an error of the inflater into an ArchiveError; an error of the disk stays as it is. */
function damaged(cause: unknown, entry: ZipEntry): unknown {
  if (cause instanceof ArchiveError || !(cause instanceof Error)) return cause;
  const code = errorCode(cause);
  const ofArchive = code.startsWith('Z_') || code === 'ERR_OUT_OF_RANGE';
  return ofArchive ? damagedEntry(entry.path, { cause }) : cause;
}
