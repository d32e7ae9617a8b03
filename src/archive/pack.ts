import { constants } from 'node:fs';
import { lstat, open, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Writable } from 'node:stream';
import { maxEntries } from '../contract/index.js';
import { freeName, Notes, privateMode, syncDirectory, TooManyEntries } from '../files/index.js';
import { carriedName, changedName } from './member-names.js';
import { newFlags } from './open-target.js';
import { EntryPacker } from './pack-entry.js';
import { type OpenedFile, type PackedPiece, walkFiles } from './walk-files.js';
import { ZipWriter } from './zip-writer.js';

/** A file to pack, or an empty directory. */
export interface ListedFile {
  /** The name in the archive, with forward slashes. A directory's name ends with a slash. */
  readonly name: string;
  readonly path: string;
  /** Size in bytes, if the caller knows it already. */
  readonly size?: number;
  /** Returns the pieces to pack instead of the whole content. Called just before the file is packed. */
  readonly pieces?: () => Promise<readonly PackedPiece[]>;
}

export interface PackOptions {
  /** Which files to pack, by their path relative to the directory; by default all. */
  readonly include?: (name: string) => boolean;
  /** Which files a link inside the directory may lead to, by the target's path relative to the directory; by default all. */
  readonly includeTarget?: (name: string) => boolean;
  /** Returns a second name to pack a file under, given its name; null for none. */
  readonly alsoAs?: (name: string) => string | null;
  readonly signal?: AbortSignal;
  /**
   * Called with the numbers of entries (files, empty directories, and everything left out) and bytes read so far; packing
   * continues when the result resolves.
   */
  readonly onProgress?: (entries: number, bytes: number) => Promise<void> | void;
  /** Whether to make files of this process's user readable if they are not. */
  readonly openUp?: boolean;
  /** Whether to hide the times and modes of the files in their entries. */
  readonly withoutStats?: boolean;
  /**
   * Whether no file is deflated. Together with `withoutStats`, equal files in the same order then make equal archives, on any
   * machine and with any version of zlib.
   */
  readonly isStored?: boolean;
}

/** The options that apply to any packing. */
type Course = Pick<PackOptions, 'signal' | 'onProgress' | 'withoutStats' | 'isStored'>;

export interface Packed {
  readonly files: number;
  /** Total size in bytes of the files, not of the archive. */
  readonly bytes: number;
  /** One sentence for each file that was renamed, cut or left out; past 20 the last one says how many more there are. */
  readonly notes: readonly string[];
}

/** The files, each under a name that archiver preserves. A changed name is numbered if another file has it. */
function carriedFiles(files: readonly ListedFile[], notes: Notes): readonly ListedFile[] {
  const taken = new Set(files.map(({ name }) => name));
  const counts = new Map<string, number>();
  return files.map((file) => {
    const carried = carriedName(file.name);
    if (carried === file.name) return file;
    const directory = carried.slice(0, carried.lastIndexOf('/') + 1);
    const base = carried.slice(directory.length);
    const name =
      base === '' ? carried : directory + freeName(base, counts, (each) => taken.has(directory + each));
    taken.add(name);
    notes.add(changedName(name, true));
    return { ...file, name };
  });
}

/**
 * Opens the files one after the other. Links are followed, because the files were chosen by their owner, unlike those that
 * `walkFiles` finds in a job's output.
 */
async function* openListed(files: readonly ListedFile[], notes: Notes): AsyncGenerator<OpenedFile> {
  for (const { name, path: place, pieces } of carriedFiles(files, notes)) {
    if (name.endsWith('/')) {
      yield { name, stats: await stat(place), file: null };
      continue;
    }
    // `O_NONBLOCK` keeps the open from blocking if a FIFO has replaced the file.
    await using file = await open(place, constants.O_RDONLY | constants.O_NONBLOCK);
    const stats = await file.stat();
    yield pieces ? { name, stats, file, pieces: await pieces() } : { name, stats, file };
  }
}

async function packAll(
  sink: Writable,
  filesWith: (onLeftOut: () => Promise<void>) => AsyncIterable<OpenedFile>,
  notes: Notes,
  strict: boolean,
  { signal, onProgress: onMore = () => {}, withoutStats = false, isStored = false }: Course,
): Promise<Packed> {
  const zip = new ZipWriter(sink, signal, withoutStats);
  const entries = new EntryPacker(zip, { notes, strict, isStored, onMore });
  let isCut = false;
  try {
    try {
      for await (const file of filesWith(() => entries.count())) {
        isCut = !entries.admits(file.name);
        if (isCut) break;
        await entries.add(file);
      }
    } catch (cause) {
      if (!(cause instanceof TooManyEntries)) throw cause;
      isCut = true;
    }
    if (isCut && strict) throw tooLong();
    await zip.finish();
  } catch (cause) {
    throw await zip.abandon(cause);
  }
  const cut = isCut
    ? [`Only ${entries.entries} files and directories were packed; the others were left out`]
    : [];
  return { files: entries.files, bytes: entries.bytes, notes: [...cut, ...notes.list()] };
}

const tooLong = () =>
  new Error(`An archive of more than ${maxEntries} files and directories could not be extracted`);

/** Yields each file, and a second time if it has a second name. */
async function* withSecondNames(
  files: AsyncIterable<OpenedFile>,
  alsoAs: (name: string) => string | null,
): AsyncGenerator<OpenedFile> {
  for await (const file of files) {
    yield file;
    const name = alsoAs(file.name);
    if (name !== null) yield { ...file, name: carriedName(name) };
  }
}

/**
 * Writes the files under `source` into a zip archive on `sink`. Files that shrink are deflated, others are stored; sizes over 4
 * GiB use zip64. Links that lead out of the directory, and files that cannot be read, are left out.
 * @param source a directory, not a link to one
 * @throws the system's error if `source` is not a directory, or `sink` fails
 */
export async function packTo(sink: Writable, source: string, options: PackOptions = {}): Promise<Packed> {
  const { include = () => true, includeTarget = () => true, openUp = false, alsoAs, signal } = options;
  const notes = new Notes();
  const filesWith = (onLeftOut: () => Promise<void>) => {
    const files = walkFiles(source, { include, includeTarget, openUp, notes, signal, onLeftOut });
    return alsoAs ? withSecondNames(files, alsoAs) : files;
  };
  return packAll(sink, filesWith, notes, false, options);
}

/**
 * Writes these files into a zip archive on `sink`, following links.
 * @throws if a file cannot be opened, or `sink` fails
 */
export const packListedTo = (
  sink: Writable,
  files: readonly ListedFile[],
  { alsoAs = () => null, ...course }: Pick<PackOptions, 'alsoAs'> & Course,
): Promise<Packed> => {
  const notes = new Notes();
  return packAll(sink, () => withSecondNames(openListed(files, notes), alsoAs), notes, false, course);
};

/**
 * Creates the zip archive `archive`. The file gets this name only when it is complete and synced to disk; until then, and after a
 * failure, no file has it.
 */
async function intoArchive(archive: string, pack: (sink: Writable) => Promise<Packed>): Promise<Packed> {
  const partial = `${archive}.partial`;
  // Whatever has the reserved name is removed, and no link followed.
  const clear = () => rm(partial, { force: true, recursive: true });
  const make = () => open(partial, newFlags, privateMode);
  try {
    const file = await make().catch(() => clear().then(make));
    const packed = await pack(file.createWriteStream({ flush: true }));
    const name = () => rename(partial, archive);
    await name().catch(() => clearDirectory(archive).then(name));
    await syncDirectory(path.dirname(archive));
    return packed;
  } catch (cause) {
    await clear();
    throw cause;
  }
}

/** Packs the files under `source` into the zip archive `archive`, as `packTo` does. */
export const packDirectory = (source: string, archive: string, options: PackOptions = {}): Promise<Packed> =>
  intoArchive(archive, (sink) => packTo(sink, source, options));

/**
 * Packs these files into the zip archive `archive`, following links.
 * @throws if there are more files than can be extracted, or one cannot be read completely
 */
export async function packListed(
  files: readonly ListedFile[],
  archive: string,
  options: Course = {},
): Promise<Packed> {
  if (files.length > maxEntries) throw tooLong();
  const notes = new Notes();
  return intoArchive(archive, (sink) => packAll(sink, () => openListed(files, notes), notes, true, options));
}

/** Removes a directory that a job created under the archive's name, because a file cannot be renamed over a directory. */
async function clearDirectory(archive: string): Promise<void> {
  const stats = await lstat(archive).catch(() => null);
  if (stats?.isDirectory()) await rm(archive, { recursive: true });
}
