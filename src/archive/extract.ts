import { closeSync, createWriteStream, rmSync, write, writeFileSync, writev } from 'node:fs';
import path from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { crc32, createInflateRaw, inflateRawSync } from 'node:zlib';
import { quoteName } from '../contract/index.js';
import { errorCode, makeDirectory, Notes, privateMode, TimeSlice } from '../files/index.js';
import { ArchiveError, damagedEntry } from './errors.js';
import { diskCost, planEntries } from './extract-plan.js';
import { MadeDirectories, openTarget, UnplaceableEntry } from './open-target.js';
import { ArchiveSource, isDeflated, placeOfContent, readDirectory, type ZipEntry } from './read-archive.js';

/**
 * Entries up to this size, both compressed and extracted, are read, inflated and written in one step: streams take ten times as
 * long.
 */
const smallSize = 256 * 1024;

export interface ExtractOptions {
  /** Maximum disk space, in bytes, for all files and directories together. */
  readonly maxBytes: number;
  /** Maximum number of files and directories, including directories that appear only as parts of file names. */
  readonly maxEntries: number;
  /** Names at the top of the destination that no entry may take. */
  readonly reserved?: readonly string[];
  /**
   * Whether an entry with a name that is impossible here is renamed or left out, with a note; otherwise the archive is refused.
   * An archive with a name that leads out of the destination is always refused.
   */
  readonly lenient?: boolean;
  /** The mode of new files before the umask; only this user can read them by default. */
  readonly mode?: number;
  /** The system whose rules for names apply; by default this machine's. */
  readonly platform?: NodeJS.Platform;
  readonly signal?: AbortSignal;
  /** Called with the number of bytes written so far, and the total that the archive states. */
  readonly onProgress?: (bytes: number, total: number) => void;
  /**
   * Called before anything is written, with the number of files and directories, the disk space in bytes that they will take, and
   * how much of that is file content. Its result is awaited.
   */
  readonly onPlan?: (entries: number, bytes: number, content: number) => unknown;
}

export interface Extracted {
  readonly files: number;
  readonly bytes: number;
  /** Number of entries that were left out because something else already has their name. Always 0 in strict mode. */
  readonly unplaced: number;
  /** One sentence for each entry that was renamed or left out; past 20 the last one says how many more there are. */
  readonly notes: readonly string[];
}

/** Passes on the bytes of a file, up to a limit, and checks them against the size and checksum that the archive states. */
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
 * Extracts a zip archive under `destination`. Limits are enforced on the bytes that are written, because the sizes stated in an
 * archive may be wrong. Names, links and duplicates are checked before the first byte is written. Existing files are never
 * overwritten, and no link below the destination is followed. After an error, the files that were extracted completely remain.
 * @throws ArchiveError for an archive that is damaged, unsafe or over the limits
 */
export async function extractArchive(
  archive: string,
  destination: string,
  options: ExtractOptions,
): Promise<Extracted> {
  await using source = await ArchiveSource.open(archive);
  const root = path.resolve(destination);
  const notes = new Notes();
  const { lenient = false, reserved = [], platform = process.platform, mode = privateMode } = options;
  const slice = new TimeSlice();
  const targets = await planEntries(await readDirectory(source, options.maxEntries), {
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
  await options.onPlan?.(cost.entries, total + overhead, total);
  let bytes = 0;
  let files = 0;
  let unplaced = 0;
  const { signal } = options;
  const onBytes = (more: number) => {
    bytes += more;
    options.onProgress?.(bytes, total);
  };
  makeDirectory(root);
  const directories = new MadeDirectories(root);

  for (const target of targets) {
    signal?.throwIfAborted();
    await slice.pause();
    let descriptor: number | null;
    try {
      descriptor = openTarget(target, directories, mode);
    } catch (cause) {
      if (!lenient || !(cause instanceof UnplaceableEntry)) throw cause;
      unplaced += 1;
      notes.add(`${quoteName(target.entry.path)} was not extracted: something else is in its place`);
      continue;
    }
    if (descriptor === null) continue;
    let isWhole = false;
    try {
      const allowed = options.maxBytes - overhead - bytes;
      await writeEntry(source, target.entry, descriptor, allowed, onBytes, signal);
      isWhole = true;
    } catch (cause) {
      throw source.failure ?? damaged(cause, target.entry);
    } finally {
      closeSync(descriptor);
      if (!isWhole) rmSync(target.path, { force: true });
    }
    files += 1;
  }
  return { files, bytes, unplaced, notes: notes.list() };
}

/** Writes the bytes of one entry, at most `allowed` of them, and checks them. */
async function writeEntry(
  source: ArchiveSource,
  entry: ZipEntry,
  descriptor: number,
  allowed: number,
  onBytes: (bytes: number) => void,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { compressedSize, uncompressedSize: size } = entry;
  const start = await placeOfContent(source, entry);
  if (Math.max(compressedSize, size) <= Math.min(smallSize, allowed)) {
    const content = contentOf(entry, await source.read(start, compressedSize));
    if (content) {
      writeFileSync(descriptor, content);
      onBytes(size);
      return;
    }
    // The read fails again in the streams below, which report it.
  }
  const check = checked(entry, allowed, onBytes);
  const packed = source.stream(start, compressedSize);
  // With the default chunks of 16 KB, a large entry takes twice as long.
  const inflate = isDeflated(entry) ? createInflateRaw({ chunkSize: 1 << 18 }) : null;
  const steps = inflate ? [packed, inflate, check] : [packed, check];
  // A destroyed stream closes its file, whatever `autoClose` says. Here the caller closes the file. If it were closed twice, the
  // second close could hit another file or socket that has reused its descriptor.
  const close = (_: number, done: (error: null) => void) => done(null);
  const file = createWriteStream('', { fd: descriptor, autoClose: false, fs: { write, writev, close } });
  try {
    await pipeline([...steps, file], signal ? { signal } : {});
  } catch (cause) {
    // On Node 20, a write may still be in progress; if the descriptor were closed now and reused, it would go to another file.
    if (!file.closed) await new Promise<void>((resolve) => file.destroy().once('close', resolve));
    throw cause;
  }
  // Bytes after the end of the deflated content do not belong to the entry.
  if (inflate && inflate.bytesWritten !== compressedSize) throw damagedEntry(entry.path);
}

/** The content of a small entry; null if it does not match the size and checksum that the archive states. */
function contentOf(entry: ZipEntry, packed: Buffer): Buffer | null {
  const { uncompressedSize: size } = entry;
  let content = packed;
  if (isDeflated(entry)) {
    try {
      const { buffer, engine } = inflateRawSync(packed, {
        maxOutputLength: Math.max(1, size),
        info: true,
      }) as unknown as { buffer: Buffer; engine: { bytesWritten: number } };
      if (engine.bytesWritten !== packed.length) return null;
      content = buffer;
    } catch {
      return null;
    }
  }
  return content.length === size && crc32(content) === entry.crc32 ? content : null;
}

/** Turns an error of the inflater into an ArchiveError; an error of the disk stays as it is. */
function damaged(cause: unknown, entry: ZipEntry): unknown {
  if (cause instanceof ArchiveError || !(cause instanceof Error)) return cause;
  return errorCode(cause).startsWith('Z_') ? damagedEntry(entry.path, { cause }) : cause;
}
